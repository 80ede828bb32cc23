#!/bin/bash
# Says everything at once that make e2e lacks on this machine, or nothing.
set -euo pipefail
here=$(dirname "$(realpath "$0")")
. "$here/images/disk.sh"
[ "$(id -u)" -eq 0 ] || { echo "make e2e makes network namespaces: run it as root" >&2; exit 1; }
[ "$(uname -m)" = x86_64 ] || { echo "make e2e simulates amd64 machines and builds their ramdisk from amd64 binaries: run it on one" >&2; exit 1; }
need "${disk_tools[@]}" "${tiny_tools[@]}" \
	apt-get:apt dpkg:dpkg ip:iproute2 qemu-system-x86_64:qemu-system-x86 \
	/usr/share/OVMF/OVMF_CODE_4M.fd:ovmf /usr/share/seabios/bios-256k.bin:seabios /usr/lib/ipxe/qemu/efi-e1000e.rom:ipxe-qemu \
	ipmi_sim:openipmi udhcpc:udhcpc openstack:python3-openstackclient /usr/lib/python3/dist-packages/ironicclient:python3-ironicclient
[ -w /dev/net/tun ] || { echo "make e2e plugs the machines in by tap devices, and cannot open /dev/net/tun: load the kernel module tun, or allow the container to use it" >&2; exit 1; }
