package disk

import (
	"encoding/binary"
	"fmt"
	"slices"
	"strings"
	"unicode/utf16"
)

// maxClusters12 is the most clusters that make a file system FAT12 (Microsoft's
// FAT specification, 3.5).
const maxClusters12 = 4084

// rootEntries is the size of the root directory.
const rootEntries = 512

// A fatNode is a file or directory of a file system to be made.
type fatNode struct {
	name    string
	dir     bool
	data    []byte
	kids    []*fatNode
	cluster int // its first; 0: none
}

// makeFAT12 makes a FAT12 file system with the given label and files, for a
// disk with sectors of so many bytes.
func makeFAT12(files []driveFile, label string, sector int) ([]byte, error) {
	root := fatTree(files)
	spc, n, err := clustersFor(root, sector)
	if err != nil {
		return nil, err
	}
	perFAT := ((n+2)*3/2 + sector) / sector
	rootBytes := rootEntries * 32
	data := sector * (1 + 2*perFAT + (rootBytes+sector-1)/sector)
	f := &fatWriter{image: make([]byte, data+n*spc*sector), fat: make([]byte, perFAT*sector), clusterBytes: spc * sector, data: data, next: 2}
	f.set(0, 0xff8)
	f.set(1, 0xfff)
	f.place(root)
	top := append(volumeEntry(label), dirEntries(root)...)
	if len(top) > rootBytes {
		return nil, fmt.Errorf("make FAT file system: its root directory has more than %d entries", rootEntries)
	}
	bootSector(f.image, label, sector, spc, perFAT)
	for i := range 2 {
		copy(f.image[sector*(1+i*perFAT):], f.fat)
	}
	copy(f.image[sector*(1+2*perFAT):], top)
	f.write(root, root)
	return f.image, nil
}

// fatTree makes directories of paths.
func fatTree(files []driveFile) *fatNode {
	root := &fatNode{dir: true}
	for _, f := range files {
		at := root
		parts := strings.Split(f.path, "/")
		for i, name := range parts {
			j := slices.IndexFunc(at.kids, func(k *fatNode) bool { return strings.EqualFold(k.name, name) })
			if j < 0 {
				at.kids = append(at.kids, &fatNode{name: name, dir: i < len(parts)-1})
				j = len(at.kids) - 1
			}
			at = at.kids[j]
		}
		at.data = f.data
	}
	return root
}

// size is how many bytes a node takes in clusters.
func (n *fatNode) size() int {
	if !n.dir {
		return len(n.data)
	}
	entries := 2
	for _, k := range n.kids {
		entries += 1 + longEntries(k.name)
	}
	return 32 * entries
}

func longEntries(name string) int { return (len(utf16.Encode([]rune(name))) + 12) / 13 }

// clustersFor finds the smallest clusters of which FAT12 has enough, and how
// many are needed.
func clustersFor(root *fatNode, sector int) (perCluster, clusters int, err error) {
	for spc := 1; spc <= 64; spc *= 2 {
		n := 1
		var count func(*fatNode)
		count = func(d *fatNode) {
			for _, k := range d.kids {
				n += (k.size() + spc*sector - 1) / (spc * sector)
				count(k)
			}
		}
		if count(root); n <= maxClusters12 {
			return spc, n, nil
		}
	}
	return 0, 0, fmt.Errorf("make FAT file system: more than %d clusters are needed", maxClusters12)
}

type fatWriter struct {
	image, fat   []byte
	clusterBytes int
	data         int // offset of cluster 2
	next         int // free cluster
}

// set writes an entry of the table: 12 bits each.
func (f *fatWriter) set(cluster, value int) {
	at := cluster * 3 / 2
	v := binary.LittleEndian.Uint16(f.fat[at:])
	if cluster%2 == 0 {
		v = v&0xf000 | uint16(value)
	} else {
		v = v&0x000f | uint16(value)<<4
	}
	binary.LittleEndian.PutUint16(f.fat[at:], v)
}

// place gives everything below a directory its clusters, in a row.
func (f *fatWriter) place(dir *fatNode) {
	for _, k := range dir.kids {
		n := (k.size() + f.clusterBytes - 1) / f.clusterBytes
		for i := range n {
			value := f.next + 1
			if i == n-1 {
				value = 0xfff
			}
			if i == 0 {
				k.cluster = f.next
			}
			f.set(f.next, value)
			f.next++
		}
		f.place(k)
	}
}

// write puts what is below a directory into its clusters.
func (f *fatWriter) write(dir, root *fatNode) {
	for _, k := range dir.kids {
		content := k.data
		if k.dir {
			up := 0
			if dir != root {
				up = dir.cluster
			}
			content = append(shortEntry(".          ", 0x10, k.cluster, 0), shortEntry("..         ", 0x10, up, 0)...)
			content = append(content, dirEntries(k)...)
		}
		if k.cluster > 0 {
			copy(f.image[f.data+(k.cluster-2)*f.clusterBytes:], content)
		}
		f.write(k, root)
	}
}

// dirEntries are a directory's entries. Every file has a long name; the short
// ones are numbers.
func dirEntries(dir *fatNode) []byte {
	var out []byte
	for i, k := range dir.kids {
		short := fmt.Sprintf("F%07d   ", i+1)
		attr, size := byte(0x20), len(k.data)
		if k.dir {
			attr, size = 0x10, 0
		}
		out = append(out, longName(k.name, short)...)
		out = append(out, shortEntry(short, attr, k.cluster, size)...)
	}
	return out
}

func volumeEntry(label string) []byte { return shortEntry(fmt.Sprintf("%-11.11s", label), 0x08, 0, 0) }

const firstDay = 1<<5 | 1 // 1 January 1980

func shortEntry(name string, attr byte, cluster, size int) []byte {
	e := make([]byte, 32)
	copy(e, name)
	e[11] = attr
	for _, at := range []int{16, 18, 24} { // made, read, changed
		binary.LittleEndian.PutUint16(e[at:], firstDay)
	}
	binary.LittleEndian.PutUint16(e[26:], uint16(cluster))
	binary.LittleEndian.PutUint32(e[28:], uint32(size))
	return e
}

// longName is a name in parts of 13 UTF-16 characters, the last part first.
func longName(name, short string) []byte {
	sum := byte(0)
	for i := range 11 {
		sum = sum>>1 | sum<<7
		sum += short[i]
	}
	chars := utf16.Encode([]rune(name))
	parts := longEntries(name)
	var out []byte
	for n := parts; n > 0; n-- {
		e := make([]byte, 32)
		e[0], e[11], e[13] = byte(n), 0x0f, sum
		if n == parts {
			e[0] |= 0x40
		}
		for i, at := range longPlaces {
			c := uint16(0xffff)
			switch j := 13*(n-1) + i; {
			case j < len(chars):
				c = chars[j]
			case j == len(chars):
				c = 0
			}
			binary.LittleEndian.PutUint16(e[at:], c)
		}
		out = append(out, e...)
	}
	return out
}

// bootSector writes the file system's description (FAT specification, 3.1).
func bootSector(image []byte, label string, sector, perCluster, perFAT int) {
	le := binary.LittleEndian
	copy(image, "\xeb\x3c\x90BESSEMER")
	le.PutUint16(image[11:], uint16(sector))
	image[13], image[16], image[21] = byte(perCluster), 2, 0xf8
	le.PutUint16(image[14:], 1)
	le.PutUint16(image[17:], rootEntries)
	if total := len(image) / sector; total < 1<<16 {
		le.PutUint16(image[19:], uint16(total))
	} else {
		le.PutUint32(image[32:], uint32(total))
	}
	le.PutUint16(image[22:], uint16(perFAT))
	le.PutUint16(image[24:], 32)
	le.PutUint16(image[26:], 64)
	image[36], image[38] = 0x80, 0x29
	copy(image[39:], "BSMR")
	copy(image[43:54], fmt.Sprintf("%-11.11s", label))
	copy(image[54:62], "FAT12   ")
	image[510], image[511] = 0x55, 0xaa
}
