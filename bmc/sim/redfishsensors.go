package sim

import (
	"fmt"
	"slices"
	"strings"
)

func (c call) chassisPath() string { return "/Chassis/" + c.machine.Spec().Name }

// sensorsOf lists the sensors with one of the given units.
func (c call) sensorsOf(units ...string) []Sensor {
	return slices.DeleteFunc(c.ctl.Sensors(), func(s Sensor) bool { return !slices.Contains(units, s.Unit) })
}

// members makes an object of each sensor, with its number and name.
func (c call) members(of string, sensors []Sensor, more func(Sensor) doc) []doc {
	list := []doc{}
	for i, s := range sensors {
		d := more(s)
		d["@odata.id"] = fmt.Sprintf("%s%s/%s#/%s/%d", root, c.chassisPath(), map[bool]string{true: "Thermal", false: "Power"}[of == "Temperatures" || of == "Fans"], of, i)
		d["MemberId"], d["Name"], d["Status"] = fmt.Sprint(i), s.Name, healthy()
		list = append(list, d)
	}
	return list
}

// limit is an upper limit, null where there is none.
func limit(v float64) any {
	if v == 0 {
		return nil
	}
	return v
}

func (rf *Redfish) getThermal(c call) (reply, error) {
	return reply{body: doc{
		"@odata.id": root + c.chassisPath() + "/Thermal", "@odata.type": "#Thermal.v1_6_2.Thermal", "Id": "Thermal", "Name": "Thermal",
		"Temperatures": c.members("Temperatures", c.sensorsOf("Cel"), func(s Sensor) doc {
			return doc{"ReadingCelsius": s.Value, "UpperThresholdCritical": limit(s.High), "SensorNumber": s.Number}
		}),
		"Fans": c.members("Fans", c.sensorsOf("RPM"), func(s Sensor) doc {
			return doc{"Reading": int(s.Value), "ReadingUnits": "RPM", "SensorNumber": s.Number}
		}),
	}}, nil
}

func (rf *Redfish) getPower(c call) (reply, error) {
	return reply{body: doc{
		"@odata.id": root + c.chassisPath() + "/Power", "@odata.type": "#Power.v1_6_1.Power", "Id": "Power", "Name": "Power",
		"PowerControl": c.members("PowerControl", c.sensorsOf("W"), func(s Sensor) doc {
			return doc{"PowerConsumedWatts": s.Value, "PowerCapacityWatts": 750}
		}),
		"Voltages": c.members("Voltages", c.sensorsOf("V"), func(s Sensor) doc {
			return doc{"ReadingVolts": s.Value, "UpperThresholdCritical": limit(s.High), "SensorNumber": s.Number}
		}),
		"PowerSupplies": []doc{{
			"@odata.id": root + c.chassisPath() + "/Power#/PowerSupplies/0", "MemberId": "0", "Name": "PSU1", "Status": healthy(),
			"PowerCapacityWatts": 750, "PowerSupplyType": "AC",
		}},
	}}, nil
}

// sensorID is a sensor's name as an identifier: "InletTemp".
func sensorID(s Sensor) string { return strings.ReplaceAll(s.Name, " ", "") }

func (rf *Redfish) getSensors(c call) (reply, error) {
	var ids []string
	for _, s := range c.ctl.Sensors() {
		ids = append(ids, sensorID(s))
	}
	return collection(c.chassisPath()+"/Sensors", "SensorCollection.SensorCollection", "Sensors", ids), nil
}

func (rf *Redfish) getSensor(c call) (reply, error) {
	kinds := map[string]string{"Cel": "Temperature", "RPM": "Rotational", "W": "Power", "V": "Voltage"}
	for _, s := range c.ctl.Sensors() {
		if sensorID(s) != c.PathValue("sensor") {
			continue
		}
		d := doc{
			"@odata.id": root + c.chassisPath() + "/Sensors/" + sensorID(s), "@odata.type": "#Sensor.v1_2_0.Sensor",
			"Id": sensorID(s), "Name": s.Name, "Status": healthy(), "Reading": s.Value, "ReadingUnits": s.Unit, "ReadingType": kinds[s.Unit],
		}
		if s.High != 0 {
			d["Thresholds"] = doc{"UpperCritical": doc{"Reading": s.High}}
		}
		return reply{body: d}, nil
	}
	return reply{}, missing(c.URL.Path)
}
