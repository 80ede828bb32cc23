package disk

import (
	"maps"
	"slices"
)

// MakeFAT makes a FAT12 file system of files by their path
// ("EFI/BOOT/BOOTX64.EFI"), as small as they allow. Its sectors are of so many
// bytes (512 to 4096); a disk with smaller ones can hold it too. The same files
// give the same bytes.
func MakeFAT(files map[string][]byte, label string, sector int) ([]byte, error) {
	var list []driveFile
	for _, path := range slices.Sorted(maps.Keys(files)) {
		list = append(list, driveFile{path, files[path]})
	}
	return makeFAT12(list, label, sector)
}
