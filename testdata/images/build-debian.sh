#!/bin/bash
# build-debian.sh OUTDIR [FORMAT...]
#
# Builds a Debian 12 test image with cloud-init, by debootstrap, in about four
# minutes: OUTDIR gets debian.raw, the formats asked for (all of qcow2, raw.zst,
# raw.gz and raw.xz without) and debian.sha256. Once cloud-init is done it prints the same line as the tiny
# image (debian-marker), so the same tests do for it. Needs root.
#
# MIRROR and SUITE are debootstrap's; WORK keeps packages and the tree between
# runs.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/disk.sh"
[ $# -ge 1 ] || { echo "usage: $0 OUTDIR [FORMAT...]" >&2; exit 2; }
[ "$(id -u)" -eq 0 ] || { echo "$0: debootstrap needs root" >&2; exit 1; }
need "${disk_tools[@]}" debootstrap:debootstrap depmod:kmod

mkdir -p "$1"
out=$(realpath "$1")
shift
formats=("$@")
[ $# -gt 0 ] || formats=("${all_formats[@]}")
if [ -z "${WORK:-}" ]; then
	WORK=$(mktemp -d)
	trap 'rm -rf "$WORK"' EXIT
fi
mkdir -p "$WORK/packages"
tree=$WORK/tree
rm -rf "$tree"
step() { echo "[${SECONDS}s] $*"; }

# debootstrap takes no virtual packages: python3-cffi-backend is one that
# cloud-init's dependencies name only by another name.
packages=systemd-sysv,udev,dbus,netbase,iproute2,kmod,e2fsprogs,fdisk,zstd,initramfs-tools,linux-image-amd64
packages=$packages,cloud-init,cloud-guest-utils,python3-cffi-backend,openssh-server
step debootstrap
debootstrap --variant=minbase --cache-dir="$WORK/packages" --include="$packages" "${SUITE:-bookworm}" "$tree" ${MIRROR:-} \
	>"$WORK/debootstrap.log" 2>&1 || { tail -n 20 "$WORK/debootstrap.log" >&2; exit 1; }

step configure
version=$(ls "$tree/lib/modules")
modules=$tree/lib/modules/$version/kernel
# What no test machine has is most of the kernel's modules.
rm -rf "$modules"/{sound,drivers/{gpu,media,staging,infiniband,iio,comedi,isdn,bluetooth,mtd,hwmon,video,power,target,firewire,usb/serial,net/wireless,net/can,net/ethernet/{mellanox,chelsio,qlogic,cavium,netronome,sfc}}} \
	"$modules"/fs/{ocfs2,gfs2,ceph,smb,nfs,nfsd,afs,btrfs,xfs,jfs,reiserfs,f2fs,udf} "$modules"/net/{bluetooth,wireless,mac80211,sctp,tipc,sunrpc,openvswitch,batman-adv,ceph}
depmod -b "$tree" "$version"
rm -rf "$tree"/usr/share/{doc,man,info,locale}/* "$tree"/var/cache/apt/* "$tree"/var/lib/apt/lists/* "$tree"/var/log/*.log
echo 'LABEL=debianroot / ext4 errors=remount-ro 0 1' >"$tree/etc/fstab"
echo debian >"$tree/etc/hostname"
: >"$tree/etc/machine-id"
rm -f "$tree"/etc/ssh/ssh_host_*
echo "debian-$version" >"$tree/etc/image"
# cloud-init looks for its drive before slow devices are there; without the
# policy it would then switch itself off.
echo 'policy: search,found=all,maybe=all,notfound=enabled' >"$tree/etc/cloud/ds-identify.cfg"
cat >"$tree/etc/cloud/cloud.cfg.d/90_test.cfg" <<'C'
datasource_list: [ConfigDrive, NoCloud, None]
system_info: {network: {renderers: [networkd]}}
ssh_genkeytypes: [ed25519]
cloud_init_modules: [seed_random, bootcmd, write-files, growpart, resizefs, set_hostname, users-groups, ssh]
cloud_config_modules: [runcmd]
cloud_final_modules: [scripts-user, final-message]
C
install -m 755 "$here/debian-marker" "$tree/usr/local/sbin/marker"
cat >"$tree/etc/systemd/system/marker.service" <<'C'
[Unit]
Description=Tell the test on the serial console that the system is up
After=cloud-final.service

[Service]
Type=oneshot
ExecStart=/usr/local/sbin/marker

[Install]
WantedBy=cloud-init.target
C
chroot "$tree" systemctl enable --quiet marker systemd-networkd ssh
# Timers and waits that only make the boot longer.
chroot "$tree" systemctl mask --quiet systemd-networkd-wait-online.service apt-daily.timer apt-daily-upgrade.timer \
	e2scrub_all.timer e2scrub_reap.service fstrim.timer dpkg-db-backup.timer getty@tty1.service

step initramfs
printf 'MODULES=list\nCOMPRESS=zstd\nFSTYPE=ext4\n' >"$tree/etc/initramfs-tools/conf.d/test"
printf '%s\n' virtio_pci virtio_blk virtio_scsi nvme ahci sd_mod sr_mod usb_storage xhci_pci isofs ext4 crc32c_generic >"$tree/etc/initramfs-tools/modules"
chroot "$tree" update-initramfs -u -k all >"$WORK/initramfs.log" 2>&1 || { cat "$WORK/initramfs.log" >&2; exit 1; }
mkdir -p "$tree/boot/grub"
cat >"$tree/boot/grub/grub.cfg" <<C
serial --unit=0 --speed=115200
terminal_output serial
set timeout=0
linux /boot/vmlinuz-$version root=LABEL=debianroot ro quiet net.ifnames=0 console=tty0 console=ttyS0,115200
initrd /boot/initrd.img-$version
boot
C

step disk
esp_mib=16
vendor_directory=yes
used=$(du -sm "$tree" | cut -f1)
make_disk "$out/debian.raw" debianroot $((used * 112 / 100 + 64)) "$tree"
cd "$out"
step pack
pack debian "${formats[@]}"
step done
ls -s --block-size=K debian.*
