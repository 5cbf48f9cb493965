package sim

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strconv"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/unix"
	"periph.io/x/conn/v3/i2c"
)

// Node is an I²C bus as a device node of this machine, such as /dev/i2c-7, that any program can use by the
// ioctls of linux/i2c-dev.h. It is a FUSE file system whose root is that one file.
//
// FUSE hands over an ioctl's raw argument and the caller's thread; the argument's memory is read and written
// in the caller itself, by process_vm_readv and process_vm_writev. That needs root, or CAP_SYS_ADMIN for the
// mount and CAP_SYS_PTRACE for the memory.
type Node struct {
	path    string
	fuse    *os.File
	adapter adapter
	close   func() error // once

	mu      sync.Mutex
	clients map[uint64]*client // by file handle
	handles uint64
}

// client is what i2c-dev keeps for one open file.
type client struct {
	mu       sync.Mutex
	addr     uint16
	ten, pec bool
}

// NewNode puts a bus at a path, which should be free: what a simulator that was killed has left there, a
// dead mount or an empty file, is removed, anything else is refused. The node works while Serve runs;
// Close, or the end of Serve, takes it away.
func NewNode(path string, bus i2c.Bus, o NodeOptions) (*Node, error) {
	if err := clear(path); err != nil {
		return nil, err
	}
	fd, err := unix.Open("/dev/fuse", unix.O_RDWR|unix.O_CLOEXEC|unix.O_NONBLOCK, 0)
	if err != nil {
		return nil, fmt.Errorf("serving an I²C device node needs FUSE: /dev/fuse: %w", err)
	}
	if err := mount(path, fd); err != nil {
		return nil, errors.Join(err, unix.Close(fd))
	}
	n := &Node{
		path: path, adapter: adapter{bus: bus, options: o}, clients: map[uint64]*client{},
		fuse: os.NewFile(uintptr(fd), "/dev/fuse"), // only now: before it is mounted it cannot be waited for
	}
	n.close = sync.OnceValue(n.takeAway)
	return n, nil
}

func mount(path string, fd int) error {
	place, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_ = place.Close()
	options := fmt.Sprintf("fd=%d,rootmode=100666,user_id=0,group_id=0,allow_other", fd)
	err = unix.Mount(source+strconv.Itoa(os.Getpid()), path, "fuse", unix.MS_NOSUID|unix.MS_NOEXEC, options)
	if errors.Is(err, unix.EPERM) {
		err = fmt.Errorf("needs root, or CAP_SYS_ADMIN: %w", err)
	}
	if err != nil {
		return errors.Join(fmt.Errorf("mounting an I²C device node at %s: %w", path, err), os.Remove(path))
	}
	return nil
}

// Path is where the node is.
func (n *Node) Path() string { return n.path }

// Close takes the node away. Transfers that run fail with ECONNABORTED.
func (n *Node) Close() error { return n.close() }

func (n *Node) takeAway() error {
	err := unmount(n.path)
	if errors.Is(err, unix.EINVAL) || errors.Is(err, unix.ENOENT) { // somebody else did
		err = nil
	}
	return errors.Join(err, n.fuse.Close(), clear(n.path))
}

// clear removes what a simulator has left at a path.
func clear(path string) error {
	for range 16 { // mounts can be stacked
		server, mounted, err := mountedAt(path)
		if err != nil {
			return err
		}
		if mounted && server != 0 && !alive(server) {
			// Not by asking the file: where a server was killed while one of its own threads waited for it,
			// that would wait too.
			if err := unmount(path); err != nil {
				return fmt.Errorf("unmounting the dead node %s: %w", path, err)
			}
			continue
		}
		info, err := os.Lstat(path)
		switch {
		case errors.Is(err, fs.ErrNotExist):
			return nil
		case errors.Is(err, unix.ENOTCONN): // nobody serves it any more
			if err := unmount(path); err != nil {
				return fmt.Errorf("unmounting the dead node %s: %w", path, err)
			}
			continue
		case err != nil:
			return err
		}
		if mounted || !info.Mode().IsRegular() || info.Size() != 0 {
			return fmt.Errorf("%s is in use: %w", path, fs.ErrExist)
		}
		return os.Remove(path)
	}
	return fmt.Errorf("%s has too many dead mounts on it", path)
}

// unmount takes a node's mount away, whoever uses it, and ends what waits for it.
func unmount(path string) error {
	return unix.Unmount(path, unix.MNT_FORCE|unix.MNT_DETACH|unix.UMOUNT_NOFOLLOW)
}

// source begins the name under which the mounts of this package are listed; the process that serves it
// follows.
const source = "hilgate:"

// mountedAt reports what is mounted at a path (proc(5), mountinfo: the mount point is the fifth field, the
// source the second after a lone hyphen): nothing, something, or a node and the process that serves it.
func mountedAt(path string) (server int, mounted bool, err error) {
	mounts, err := os.ReadFile("/proc/self/mountinfo")
	if err != nil {
		return 0, false, err
	}
	escaped := strings.NewReplacer(" ", `\040`, "\t", `\011`, "\n", `\012`, `\`, `\134`).Replace(path)
	for line := range strings.Lines(string(mounts)) {
		place, kind, _ := strings.Cut(line, " - ")
		if fields := strings.Fields(place); len(fields) < 5 || fields[4] != escaped {
			continue
		}
		server, mounted = 0, true // the last one listed is on top
		if fields := strings.Fields(kind); len(fields) > 1 {
			if pid, ours := strings.CutPrefix(fields[1], source); ours {
				server, _ = strconv.Atoi(pid)
			}
		}
	}
	return server, mounted, nil
}

// alive reports whether a process runs: it is there, has not ended, and is not about to, killed but held by
// a system call that nothing ends (proc(5), status: SIGKILL is pending).
func alive(pid int) bool {
	status, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return false
	}
	for line := range strings.Lines(string(status)) {
		key, value, _ := strings.Cut(line, ":")
		switch value = strings.TrimSpace(value); key {
		case "State":
			if strings.HasPrefix(value, "Z") || strings.HasPrefix(value, "X") {
				return false
			}
		case "ShdPnd":
			if pending, err := strconv.ParseUint(value, 16, 64); err == nil && pending&(1<<(unix.SIGKILL-1)) != 0 {
				return false
			}
		}
	}
	return true
}

// FUSE, protocol 7.31 (linux/fuse.h), little endian as all machines that Go's Linux port and this project
// are built for. A request is
//
//	[len u32] [opcode u32] [unique u64] [node u64] [uid u32] [gid u32] [pid u32] [pad u32]  body…
//
// and a reply
//
//	[len u32] [-errno s32] [unique u64]  body…
const (
	fuseForget      = 2
	fuseGetattr     = 3
	fuseSetattr     = 4
	fuseOpen        = 14
	fuseRelease     = 18
	fuseFlush       = 25
	fuseInit        = 26
	fuseInterrupt   = 36
	fuseIoctl       = 39
	fuseBatchForget = 42

	requestHeader = 40
	replyHeader   = 16
	bufferSize    = 64 << 10 // at least 8 kB is demanded
	maxWrite      = 4096
)

var le = binary.LittleEndian

// Serve answers programs that use the node, until ctx ends or the node is unmounted; then it takes the node
// away. Each request has a goroutine of its own, so that one that hangs holds up nobody but the bus; Serve
// waits for them.
func (n *Node) Serve(ctx context.Context) (err error) {
	var requests sync.WaitGroup
	defer func() {
		err = errors.Join(err, n.Close())
		requests.Wait()
	}()
	stop := context.AfterFunc(ctx, func() { _ = n.Close() })
	defer stop()
	buf := make([]byte, bufferSize)
	for {
		size, err := n.fuse.Read(buf)
		switch {
		case errors.Is(err, os.ErrClosed), err != nil && n.unmounted():
			return nil
		case errors.Is(err, unix.ENOENT): // the request was taken back
			continue
		case err != nil:
			return fmt.Errorf("%s: %w", n.path, err)
		}
		if size < requestHeader {
			continue
		}
		request := bytes.Clone(buf[:size])
		requests.Go(func() { n.answer(request) })
	}
}

// unmounted reports whether somebody else has unmounted the node.
func (n *Node) unmounted() bool {
	conn, err := n.fuse.SyscallConn()
	if err != nil {
		return true
	}
	events := []unix.PollFd{{}}
	err = conn.Control(func(fd uintptr) {
		events[0].Fd = int32(fd)
		_, _ = unix.Poll(events, 0)
	})
	return err != nil || events[0].Revents&unix.POLLERR != 0
}

// answer does one request.
func (n *Node) answer(request []byte) {
	opcode, unique := le.Uint32(request[4:]), le.Uint64(request[8:])
	pid := int(le.Uint32(request[32:]))
	if opcode == fuseForget || opcode == fuseBatchForget || opcode == fuseInterrupt {
		return // they take no reply; and what has begun on a bus is not interrupted, as in the kernel
	}
	body, errno := n.do(opcode, pid, request[requestHeader:])
	reply := make([]byte, replyHeader, replyHeader+len(body))
	le.PutUint32(reply, uint32(replyHeader+len(body)))
	le.PutUint32(reply[4:], uint32(-int32(errno)))
	le.PutUint64(reply[8:], unique)
	_, _ = n.fuse.Write(append(reply, body...)) // nobody waits for it if it fails
}

func (n *Node) do(opcode uint32, pid int, body []byte) (reply []byte, errno syscall.Errno) {
	switch opcode {
	case fuseInit:
		reply = make([]byte, 64)
		le.PutUint32(reply, 7)
		le.PutUint32(reply[4:], 31)
		le.PutUint32(reply[20:], maxWrite)
		return reply, 0
	case fuseGetattr, fuseSetattr:
		reply = make([]byte, 16+88)
		attributes := reply[16:]
		le.PutUint64(attributes, 1)                       // inode
		le.PutUint32(attributes[60:], unix.S_IFREG|0o666) // mode
		le.PutUint32(attributes[64:], 1)                  // links
		return reply, 0
	case fuseOpen:
		n.mu.Lock()
		defer n.mu.Unlock()
		n.handles++
		n.clients[n.handles] = new(client)
		reply = make([]byte, 16)
		le.PutUint64(reply, n.handles)
		le.PutUint32(reply[8:], 1) // FOPEN_DIRECT_IO
		return reply, 0
	case fuseRelease:
		if len(body) < 8 {
			return nil, unix.EINVAL
		}
		n.mu.Lock()
		defer n.mu.Unlock()
		delete(n.clients, le.Uint64(body))
		return nil, 0
	case fuseFlush:
		return nil, 0
	case fuseIoctl:
		if len(body) < 24 {
			return nil, unix.EINVAL
		}
		n.mu.Lock()
		c := n.clients[le.Uint64(body)]
		n.mu.Unlock()
		if c == nil {
			return nil, unix.EBADF
		}
		m := memory{pid: pid, narrow: le.Uint32(body[8:])&1 != 0} // FUSE_IOCTL_COMPAT
		result, errno := n.ioctl(c, m, le.Uint32(body[12:]), le.Uint64(body[16:]))
		if errno != 0 {
			return nil, errno
		}
		reply = make([]byte, 16)
		le.PutUint32(reply, uint32(result))
		return reply, 0
	}
	return nil, unix.ENOSYS
}
