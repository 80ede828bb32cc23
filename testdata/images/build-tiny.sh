#!/bin/bash
# build-tiny.sh KERNELDIR OUTDIR
#
# Builds the tiny test operating system: a whole-disk image of some 25 MB that
# boots by BIOS and UEFI, reads its config drive, and prints one line on the
# serial console (tiny-init says which). KERNELDIR is an unpacked Debian kernel
# package (dpkg -x linux-image-*.deb KERNELDIR). OUTDIR gets tiny.raw, .qcow2,
# .raw.zst, .raw.gz, .raw.xz and tiny.sha256.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/disk.sh"
[ $# -eq 2 ] || { echo "usage: $0 KERNELDIR OUTDIR" >&2; exit 2; }
need "${disk_tools[@]}" "${tiny_tools[@]}"
# An applet that the dynamic package does not have tells which one it is.
ldd /bin/busybox >/dev/null 2>&1 && { echo "$0: /bin/busybox is not static: install busybox-static" >&2; exit 1; }

kernel=$(realpath "$1")
version=$(ls "$kernel/lib/modules")
[ -f "$kernel/boot/vmlinuz-$version" ] || { echo "$0: no boot/vmlinuz-$version in $kernel" >&2; exit 1; }
mkdir -p "$2"
out=$(realpath "$2")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# The operating system is an initramfs: BusyBox, an init, and the drivers of
# the disks that the simulated machines have.
modules="virtio_pci virtio_blk virtio_scsi nvme ahci sd_mod isofs vfat nls_cp437 nls_ascii button evdev"
init=$work/init
mkdir -p "$init"/{bin,dev,proc,sys,cd,modules,etc/acpi/PWRF}
cp /bin/busybox "$init/bin/"
ln -s busybox "$init/bin/sh"
install -m 755 "$here/tiny-init" "$init/init"
echo "tiny-$version" >"$init/etc/image"
depmod -n -b "$kernel" "$version" >"$work/dep"
n=10
for m in $modules; do
	# A line names a module, then all that it needs, the last one first.
	line=$(grep -E "/${m//_/[-_]}\.ko:" "$work/dep") || continue # built in
	for f in $(tr ' ' '\n' <<<"${line/:/}" | tac); do
		[ -e "$work/seen-${f##*/}" ] && continue
		touch "$work/seen-${f##*/}"
		strip -g -o "$init/modules/$((n++))-${f##*/}" "$kernel/lib/modules/$version/$f"
	done
done

tree=$work/tree
mkdir -p "$tree/boot/grub"
cp "$kernel/boot/vmlinuz-$version" "$tree/boot/vmlinuz"
(cd "$init" && find . | LC_ALL=C sort | cpio -o -H newc -R 0:0 --quiet) | zstd -q -9 >"$tree/boot/initrd"
cat >"$tree/boot/grub/grub.cfg" <<'C'
serial --unit=0 --speed=115200
terminal_output serial
set timeout=0
linux /boot/vmlinuz console=ttyS0,115200 loglevel=3
initrd /boot/initrd
boot
C
make_disk "$work/tiny.raw" tinyroot $(($(du -sm "$tree" | cut -f1) + 4)) "$tree"
cp --sparse=always "$work/tiny.raw" "$out/tiny.raw"
cd "$out"
pack tiny "${all_formats[@]}"
ls -s --block-size=K tiny.*
