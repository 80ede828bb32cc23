"""Drives a simulated machine with sushy, an independent Redfish client.

Arguments: URL USER PASSWORD SYSTEM. It raises on the first surprise and
prints "ok" at the end. REQUESTS_CA_BUNDLE names the certificate to trust.
"""
import sys
import time

import sushy
from sushy import exceptions

url, user, password, name = sys.argv[1:5]


def check(what, got, want):
    if got != want:
        raise SystemExit("%s: got %r, want %r" % (what, got, want))


def wait_power(system, want):
    for _ in range(200):
        system.refresh(force=True)
        if system.power_state == want:
            return
        time.sleep(0.02)
    raise SystemExit("power state %s instead of %s" % (system.power_state, want))


def done(change):
    """Makes a change with which sushy sends no ETag; False if it needs one."""
    try:
        change()
        return True
    except exceptions.HTTPError as e:
        check("change without an ETag", e.status_code, 428)
        return False


root = sushy.Sushy(url, username=user, password=password)
check("systems", len(root.get_system_collection().get_members()), 2)
system = root.get_system("/redfish/v1/Systems/" + name)
check("uuid", system.uuid, "16b7275a-4a72-508c-9b1f-0a1b2c3d4e01")
check("serial", system.serial_number, "SN-1")
check("memory", system.memory_summary.size_gib, 0)
check("nics", system.ethernet_interfaces.summary, {"52:54:00:be:55:01": sushy.STATE_ENABLED, "52:54:00:be:55:02": sushy.STATE_ENABLED})
drives = [d for s in system.storage.get_members() for d in s.drives]
check("drives", sorted((d.name, d.serial_number, d.capacity_bytes, d.media_type) for d in drives),
      [("Disk0", "DISK-A", 4 << 30, "HDD"), ("Disk1", "DISK-B", 8 << 30, "SSD")])
check("bios", (system.bios.attributes["BootMode"], system.bios.attributes["BootRetryCount"]), ("Uefi", 3))
check("chassis", [c.identity for c in system.chassis], [name])
check("managers", [m.manager_type for m in system.managers], [sushy.MANAGER_TYPE_BMC])

check("processors", system.processors.summary.count, 2)
manager = system.managers[0]
check("manager", (manager.firmware_version, manager.identity), ("1.0", name))

check("secure boot", (system.secure_boot.enabled, system.secure_boot.current_boot), (False, sushy.SECURE_BOOT_DISABLED))
secure = done(lambda: system.secure_boot.set_enabled(True))
system.secure_boot.refresh(force=True)
check("secure boot of the next start", (system.secure_boot.enabled, system.secure_boot.current_boot), (secure, sushy.SECURE_BOOT_DISABLED))

bios = done(lambda: system.bios.set_attribute("BootRetryCount", 5))
system.bios.refresh(force=True)
check("pending bios", (system.bios.attributes["BootRetryCount"], system.bios.pending_attributes["BootRetryCount"]), (3, 5 if bios else 3))

chassis = system.chassis[0]
check("fans", [f.name for f in chassis.thermal.fans], ["Fan1", "Fan2"])
check("temperatures", [t.upper_threshold_critical for t in chassis.thermal.temperatures], [42, 95])
check("power supplies", [p.power_capacity_watts for p in chassis.power.power_supplies], [750])
check("adapters", len(chassis.network_adapters.get_members()), 2)

updates = root.get_update_service().firmware_inventory
check("firmware", (name + "-BIOS", "2.4.1") in [(f.identity, f.version) for f in updates.get_members()], True)

drive = [m for m in manager.virtual_media.get_members() if sushy.VIRTUAL_MEDIA_CD in m.media_types][0]
check("empty drive", drive.inserted, False)
drive.insert_media("http://10.0.0.1/images/a.iso")
drive.refresh(force=True)
check("full drive", (drive.inserted, drive.image, drive.image_name), (True, "http://10.0.0.1/images/a.iso", "a.iso"))
drive.eject_media()
drive.refresh(force=True)
check("emptied drive", drive.inserted, False)

for target in (sushy.BOOT_SOURCE_TARGET_PXE, sushy.BOOT_SOURCE_TARGET_HDD):
    for enabled in (sushy.BOOT_SOURCE_ENABLED_ONCE, sushy.BOOT_SOURCE_ENABLED_CONTINUOUS):
        for mode in (sushy.BOOT_SOURCE_MODE_UEFI, sushy.BOOT_SOURCE_MODE_BIOS):
            system.set_system_boot_options(target, enabled=enabled, mode=mode)
            system.refresh(force=True)
            check("boot", (system.boot.target, system.boot.enabled, system.boot.mode), (target, enabled, mode))

system.set_system_boot_options(sushy.BOOT_SOURCE_TARGET_PXE, enabled=sushy.BOOT_SOURCE_ENABLED_ONCE)
check("power", system.power_state, sushy.SYSTEM_POWER_STATE_OFF)
system.reset_system(sushy.RESET_ON)
wait_power(system, sushy.SYSTEM_POWER_STATE_ON)
system.bios.refresh(force=True)
check("bios after a start", system.bios.attributes["BootRetryCount"], 5 if bios else 3)
system.secure_boot.refresh(force=True)
check("secure boot after a start", system.secure_boot.current_boot, sushy.SECURE_BOOT_ENABLED if secure else sushy.SECURE_BOOT_DISABLED)
system.bios.reset_bios()
check("used override", (system.boot.target, system.boot.enabled), (sushy.BOOT_SOURCE_TARGET_NONE, sushy.BOOT_SOURCE_ENABLED_DISABLED))
system.reset_system(sushy.RESET_FORCE_RESTART)
wait_power(system, sushy.SYSTEM_POWER_STATE_ON)
system.reset_system(sushy.RESET_GRACEFUL_SHUTDOWN)
wait_power(system, sushy.SYSTEM_POWER_STATE_OFF)
try:
    system.reset_system(sushy.RESET_FORCE_RESTART)
    raise SystemExit("a machine that is off was restarted")
except exceptions.HTTPError as e:
    check("restart while off", e.status_code, 409)
try:
    root.get_system("/redfish/v1/Systems/nobody")
    raise SystemExit("a system that is not there was found")
except exceptions.ResourceNotFoundError:
    pass
try:
    sushy.Sushy(url, username=user, password="wrong").get_system_collection()
    raise SystemExit("a wrong password was accepted")
except exceptions.AccessError:
    pass
print("ok")
