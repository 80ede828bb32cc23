# Functions that the image builders share; to be sourced. They make a whole-disk
# image that boots by BIOS and by UEFI, without loop devices or mounts:
#
#   LBA 2048  1 MiB   partition 14  BIOS boot: GRUB's core image
#   2 MiB     8 MiB   partition 15  ESP: Debian's signed shim and GRUB
#   then      rest    partition 1   ext4; last, so that it can grow

# need PROGRAM:PACKAGE... ends the script unless every program, or file, is there.
need() {
	local missing=() pair
	for pair; do
		case $pair in
		/*) [ -e "${pair%%:*}" ] || missing+=("$pair") ;;
		*) command -v "${pair%%:*}" >/dev/null || missing+=("$pair") ;;
		esac
	done
	[ ${#missing[@]} -eq 0 ] && return
	echo "$0: missing:" >&2
	printf '  %s\n' "${missing[@]/:/, from the Debian package }" >&2
	exit 1
}

disk_tools=(
	sgdisk:gdisk mke2fs:e2fsprogs mkfs.vfat:dosfstools mcopy:mtools qemu-img:qemu-utils
	grub-mkimage:grub-common /usr/lib/grub/i386-pc/boot.img:grub-pc-bin
	/usr/lib/shim/shimx64.efi.signed:shim-signed
	/usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed:grub-efi-amd64-signed
	zstd:zstd xz:xz-utils gzip:gzip sha256sum:coreutils
)
tiny_tools=(cpio:cpio depmod:kmod strip:binutils /bin/busybox:busybox-static)

mib=1048576
esp_mib=8 # a script may set it before it calls make_disk

# make_disk RAW LABEL ROOT_MIB TREE makes the image of a directory tree. The
# tree has its GRUB configuration at /boot/grub/grub.cfg.
make_disk() {
	local raw=$1 label=$2 size=$3 tree=$4 root_at=$((2 + esp_mib))
	local end=$((root_at + size))
	rm -f "$raw"
	truncate -s $((end + 1))M "$raw" # the backup GPT is in the last MiB
	sgdisk --new 14:2048:+1M --typecode 14:EF02 --change-name 14:bios \
		--new 15:4096:+${esp_mib}M --typecode 15:EF00 --change-name 15:esp \
		--new 1:$((root_at * 2048)):$((end * 2048 - 1)) --typecode 1:8300 --change-name 1:root "$raw" >/dev/null
	mke2fs -q -t ext4 -m 0 -L "$label" -d "$tree" -E offset=$((root_at * mib)) "$raw" "${size}M" 2>/dev/null
	local work
	work=$(mktemp -d)
	cat >"$work/find.cfg" <<-C
		search --no-floppy --label $label --set=root
		set prefix=(\$root)/boot/grub
		configfile (\$root)/boot/grub/grub.cfg
	C
	boot_by_bios "$raw" "$work"
	boot_by_uefi "$raw" "$work"
	rm -rf "$work"
}

# little_endian NUMBER BYTES prints a number as bytes.
little_endian() {
	local n=$1 i
	for ((i = 0; i < $2; i++)); do
		printf "\\x$(printf %02x $((n & 255)))"
		n=$((n >> 8))
	done
}

# put FILE OFFSET overwrites bytes of a file with its standard input.
put() { dd of="$1" bs=1 seek="$2" conv=notrunc status=none; }

# boot_by_bios writes GRUB's boot sector and core image. The boot sector holds
# the core's first sector as a 64-bit number at 0x5c. The core's first sector
# ends in a list of where its rest is: start, length, segment (GRUB's boot.S
# and diskboot.S). The jump at 0x66 skips the check of the drive number that
# BIOS gives; grub-bios-setup replaces it on hard disks too.
boot_by_bios() {
	local raw=$1 work=$2 sectors
	grub-mkimage -O i386-pc -p /boot/grub -c "$work/find.cfg" -o "$work/core" \
		biosdisk part_gpt ext2 search search_label normal configfile linux serial terminal echo
	truncate -s %512 "$work/core"
	sectors=$(($(stat -c %s "$work/core") / 512))
	little_endian 2049 8 | put "$work/core" $((0x1f4))
	little_endian $((sectors - 1)) 2 | put "$work/core" $((0x1fc))
	little_endian $((0x820)) 2 | put "$work/core" $((0x1fe))
	cp /usr/lib/grub/i386-pc/boot.img "$work/boot"
	little_endian 2048 8 | put "$work/boot" $((0x5c))
	little_endian $((0x9090)) 2 | put "$work/boot" $((0x66))
	dd if="$work/core" of="$raw" bs=512 seek=2048 conv=notrunc status=none
	dd if="$work/boot" of="$raw" bs=1 count=440 conv=notrunc status=none
}

# boot_by_uefi fills the ESP. Debian's signed GRUB looks for its configuration
# in /EFI/debian, whichever directory it was started from. With a
# vendor_directory the boot loaders are there too, as after an installation,
# with the file that names them for who makes the firmware's boot entry.
boot_by_uefi() {
	local raw=$1 work=$2 esp=$2/esp
	truncate -s ${esp_mib}M "$esp"
	mkfs.vfat -n ESP "$esp" >/dev/null
	(
		export MTOOLS_SKIP_CHECK=1
		mmd -i "$esp" ::/EFI ::/EFI/BOOT ::/EFI/debian
		mcopy -i "$esp" /usr/lib/shim/shimx64.efi.signed ::/EFI/BOOT/BOOTX64.EFI
		mcopy -i "$esp" /usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed ::/EFI/BOOT/grubx64.efi
		mcopy -i "$esp" "$work/find.cfg" ::/EFI/debian/grub.cfg
		if [ "${vendor_directory:-}" ]; then
			mcopy -i "$esp" /usr/lib/shim/shimx64.efi.signed ::/EFI/debian/shimx64.efi
			mcopy -i "$esp" /usr/lib/grub/x86_64-efi-signed/grubx64.efi.signed ::/EFI/debian/grubx64.efi
			printf 'shimx64.efi,debian,,Debian GNU/Linux\n' | iconv -t UTF-16 | mcopy -i "$esp" - ::/EFI/debian/BOOTX64.CSV
		fi
	)
	dd if="$esp" of="$raw" bs=1M seek=2 conv=notrunc,sparse status=none
}

# pack NAME FORMAT... makes NAME.FORMAT of NAME.raw for each of the formats
# qcow2, raw.zst, raw.gz and raw.xz, and NAME.sha256 of all, in the working
# directory.
pack() {
	local name=$1 format
	shift
	for format; do
		case $format in
		qcow2) qemu-img convert -c -O qcow2 "$name.raw" "$name.qcow2" ;;
		raw.zst) zstd -q -f -T2 -6 "$name.raw" -o "$name.raw.zst" ;;
		raw.gz) gzip -4 -k -f "$name.raw" ;;
		raw.xz) xz -T1 -1 -k -f "$name.raw" ;;
		*) echo "$0: unknown format $format" >&2 && exit 2 ;;
		esac
	done
	sha256sum "$name.raw" "${@/#/$name.}" >"$name.sha256.new"
	mv "$name.sha256.new" "$name.sha256"
}

all_formats=(qcow2 raw.zst raw.gz raw.xz)
