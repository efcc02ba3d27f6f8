package sqlite

import "syscall"

// networks are file systems that other machines may use at the same time, by the
// magic numbers of statfs(2). FUSE is not among them: it may be anything.
var networks = map[uint32]string{
	0x6969: "NFS", 0xff534d42: "CIFS", 0xfe534d42: "SMB", 0x517b: "SMB", 0x5346414f: "AFS", 0x00c36400: "CephFS",
	0x0bd00bd0: "Lustre", 0x47504653: "GPFS", 0x7461636f: "OCFS2", 0x01161970: "GFS2", 0x01021997: "9P",
}

// network returns the name of the network file system that contains a path, or an empty
// string if the file system is not a known one.
func network(path string) string {
	var info syscall.Statfs_t
	if syscall.Statfs(path, &info) != nil {
		return ""
	}
	return networks[uint32(info.Type)]
}
