package sim

import (
	"fmt"
	"time"
)

func (rf *Redfish) getLogs(c call) (reply, error) {
	return collection(c.systemPath()+"/LogServices", "LogServiceCollection.LogServiceCollection", "Log Services", []string{"SEL"}), nil
}

func (rf *Redfish) getLog(c call) (reply, error) {
	path := root + c.systemPath() + "/LogServices/SEL"
	return reply{body: doc{
		"@odata.id": path, "@odata.type": "#LogService.v1_2_0.LogService", "Id": "SEL", "Name": "System Event Log",
		"Status": healthy(), "ServiceEnabled": true, "LogEntryType": "SEL", "MaxNumberOfRecords": maxLog, "OverWritePolicy": "WrapsWhenFull",
		"DateTime": c.clock(), "Entries": doc{"@odata.id": path + "/Entries"},
		"Actions": doc{"#LogService.ClearLog": doc{"target": path + "/Actions/LogService.ClearLog"}},
	}}, nil
}

func (rf *Redfish) getEntries(c call) (reply, error) {
	entries := []doc{}
	for _, e := range c.ctl.Entries() {
		entries = append(entries, c.entryDoc(e))
	}
	out := collection(c.systemPath()+"/LogServices/SEL/Entries", "LogEntryCollection.LogEntryCollection", "Log Entries", nil)
	out.body["Members"], out.body["Members@odata.count"] = entries, len(entries)
	return out, nil
}

func (rf *Redfish) getEntry(c call) (reply, error) {
	for _, e := range c.ctl.Entries() {
		if fmt.Sprint(e.ID) == c.PathValue("entry") {
			return reply{body: c.entryDoc(e)}, nil
		}
	}
	return reply{}, missing(c.URL.Path)
}

func (c call) entryDoc(e LogEntry) doc {
	id := fmt.Sprint(e.ID)
	return doc{
		"@odata.id": root + c.systemPath() + "/LogServices/SEL/Entries/" + id, "@odata.type": "#LogEntry.v1_8_0.LogEntry",
		"Id": id, "Name": "Log Entry " + id, "EntryType": "SEL", "Severity": e.Severity, "Message": e.Text,
		"Created": e.Time.UTC().Format(time.RFC3339),
	}
}

func (rf *Redfish) postClearLog(c call) (reply, error) {
	c.ctl.ClearLog()
	return reply{}, nil
}

// clock is the controller's time; some have lost theirs.
func (c call) clock() string {
	if c.on("R-23") {
		return time.Unix(int64(c.ctl.Uptime().Seconds()), 0).UTC().Format(time.RFC3339)
	}
	return time.Now().UTC().Format(time.RFC3339)
}
