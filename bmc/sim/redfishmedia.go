package sim

import (
	"slices"
	"strings"
)

// mediaRoot is the path of what the virtual drives are under: the system or
// its manager, wherever the request found them.
func (c call) mediaRoot() string {
	name := c.machine.Spec().Name
	if strings.HasPrefix(c.URL.Path, root+"/Managers/") {
		return "/Managers/" + name + "/VirtualMedia"
	}
	return "/Systems/" + name + "/VirtualMedia"
}

// mediaHere reports whether virtual drives are where they are asked for: some
// have them under managers only (V-01).
func (c call) mediaHere() error {
	if c.on("V-01") && strings.HasPrefix(c.mediaRoot(), "/Systems/") {
		return missing(c.URL.Path)
	}
	return nil
}

func (rf *Redfish) getMedias(c call) (reply, error) {
	if err := c.mediaHere(); err != nil {
		return reply{}, err
	}
	var ids []string
	for _, m := range c.ctl.Media() {
		ids = append(ids, m.ID)
	}
	return collection(c.mediaRoot(), "VirtualMediaCollection.VirtualMediaCollection", "Virtual Media", ids), nil
}

func (c call) media() (Media, error) {
	for _, m := range c.ctl.Media() {
		if m.ID == c.PathValue("media") {
			return m, c.mediaHere()
		}
	}
	return Media{}, missing(c.URL.Path)
}

func (rf *Redfish) getMedia(c call) (reply, error) {
	m, err := c.media()
	if err != nil {
		return reply{}, err
	}
	path := c.mediaRoot() + "/" + m.ID
	types := m.Types
	if c.on("V-02") {
		types = slices.DeleteFunc(slices.Clone(types), func(t string) bool { return t == "CD" })
	}
	d := doc{
		"@odata.id": root + path, "@odata.type": "#VirtualMedia.v1_3_2.VirtualMedia", "Id": m.ID, "Name": "Virtual drive " + m.ID,
		"MediaTypes": types, "Image": nil, "ImageName": nil, "Inserted": m.Image != "", "ConnectedVia": "NotConnected", "WriteProtected": m.WriteProtected,
	}
	if m.Image != "" {
		d["Image"], d["ImageName"], d["ConnectedVia"] = m.Image, m.Image[strings.LastIndexByte(m.Image, '/')+1:], "URI"
	}
	if !c.on("V-04") {
		d["Actions"] = doc{
			"#VirtualMedia.InsertMedia": doc{"target": root + path + "/Actions/VirtualMedia.InsertMedia"},
			"#VirtualMedia.EjectMedia":  doc{"target": root + path + "/Actions/VirtualMedia.EjectMedia"},
		}
	}
	return reply{body: d}, nil
}

func (rf *Redfish) postInsert(c call) (reply, error) {
	m, err := c.media()
	if err != nil {
		return reply{}, err
	}
	if c.on("V-04") {
		return reply{}, missing(c.URL.Path)
	}
	for _, property := range []string{"Inserted", "WriteProtected"} {
		if _, given := c.body[property]; given && c.on("V-03") {
			return reply{}, &fault{
				status: 400, message: "ActionParameterUnknown", args: []string{"InsertMedia", property},
				text: "The action InsertMedia does not know the parameter " + property + ".",
			}
		}
	}
	return reply{}, c.insert(m)
}

// insert puts the image of the body into a drive.
func (c call) insert(m Media) error {
	image, _ := c.body["Image"].(string)
	switch {
	case image == "", c.on("V-05") && (strings.ContainsAny(image, "?=&") || !strings.HasSuffix(image, ".iso")):
		return badValue("Image", c.body["Image"])
	case m.Image != "":
		return &fault{status: 409, message: "ResourceInUse", text: "The virtual drive " + m.ID + " holds an image already. Eject it first."}
	}
	protected, given := c.body["WriteProtected"].(bool)
	return c.ctl.SetMedia(m.ID, image, protected || !given)
}

func (rf *Redfish) postEject(c call) (reply, error) {
	m, err := c.media()
	switch {
	case err != nil:
		return reply{}, err
	case c.on("V-04"):
		return reply{}, missing(c.URL.Path)
	case c.on("V-06") && c.ContentLength == 0:
		return reply{}, &fault{status: 415, message: "UnsupportedMediaType", text: "The request has no body of the media type application/json."}
	case m.Image == "" && c.on("V-07"):
		return reply{}, &fault{status: 400, message: "ResourceCannotBeDeleted", text: "There is no image to be ejected."}
	}
	return reply{}, c.ctl.SetMedia(m.ID, "", m.WriteProtected)
}

// patchMedia inserts and ejects where there are no actions for it (V-04).
func (rf *Redfish) patchMedia(c call) (reply, error) {
	m, err := c.media()
	if err != nil {
		return reply{}, err
	}
	image, given := c.body["Image"]
	switch {
	case !given:
		return reply{}, badValue("Image", nil)
	case image == nil || image == "":
		err = c.ctl.SetMedia(m.ID, "", m.WriteProtected)
	case c.on("V-04") && c.body["Inserted"] != true:
		err = &fault{status: 400, message: "PropertyMissing", args: []string{"Inserted"}, text: "The property Inserted is required and missing."}
	default:
		err = c.insert(m)
	}
	if err != nil {
		return reply{}, err
	}
	return rf.getMedia(c)
}
