package main

import (
	"encoding/binary"
	"errors"
	"io"
	"os"
	"sync"
)

// Types and flags of SFTP 3 that matter here.
const (
	sftpOpen, sftpClose, sftpWrite, sftpStatus, sftpHandle = 3, 4, 6, 101, 102
	sftpFlagAppend                                         = 0x4
	// The library takes packets of 256 KiB and ends the connection at longer ones.
	longestSftpPacket = 1 << 20
	// Type, id and length of a handle, and the handle, which has 256 bytes at most.
	longestSftpHead = 1 + 4 + 4 + 256
)

var errSftpTooLong = errors.New("an sftp packet that is too long")

// appendingSftp passes on the packets of an sftp client, and writes where a file ends if it was opened to be appended to.
//
// The protocol lets such a client send any offset. The library takes the offset all the same, so that most clients
// would overwrite the beginning of the file. The invariant: whatever is not a write to such a file passes unchanged.
type appendingSftp struct {
	io.ReadWriteCloser

	mu      sync.Mutex
	opening map[uint32]uint64 // by request, how long the file is
	ends    map[string]uint64 // by handle, where the next write goes

	packet []byte // of the client, what was not read yet
	head   []byte // of the server's packet on its way, its length and first bytes
	left   uint32 // of that packet, what is still to come
}

func newAppendingSftp(stream io.ReadWriteCloser) *appendingSftp {
	return &appendingSftp{ReadWriteCloser: stream, opening: map[uint32]uint64{}, ends: map[string]uint64{}}
}

// Read gives the client's bytes, packet by packet.
func (a *appendingSftp) Read(into []byte) (int, error) {
	if len(a.packet) == 0 {
		var length [4]byte
		if _, err := io.ReadFull(a.ReadWriteCloser, length[:]); err != nil {
			return 0, err
		}
		size := binary.BigEndian.Uint32(length[:])
		if size > longestSftpPacket {
			return 0, errSftpTooLong
		}
		a.packet = make([]byte, 4+size)
		copy(a.packet, length[:])
		if _, err := io.ReadFull(a.ReadWriteCloser, a.packet[4:]); err != nil {
			return 0, err
		}
		a.onRequest(a.packet[4:])
	}
	n := copy(into, a.packet)
	a.packet = a.packet[n:]
	return n, nil
}

func (a *appendingSftp) onRequest(body []byte) {
	if len(body) < 5 {
		return
	}
	id, rest := binary.BigEndian.Uint32(body[1:]), body[5:]
	name, rest, ok := sftpString(rest)
	if !ok {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	switch body[0] {
	case sftpOpen:
		if len(rest) >= 4 && binary.BigEndian.Uint32(rest)&sftpFlagAppend != 0 {
			a.opening[id] = 0
			if found, err := os.Stat(name); err == nil {
				a.opening[id] = uint64(found.Size())
			}
		}
	case sftpClose:
		delete(a.ends, name)
	case sftpWrite:
		if end, known := a.ends[name]; known && len(rest) >= 12 {
			binary.BigEndian.PutUint64(rest, end)
			a.ends[name] = end + uint64(len(rest)-12)
		}
	}
}

// Write passes on the server's bytes, which may come in any pieces.
func (a *appendingSftp) Write(data []byte) (int, error) {
	a.watch(data)
	return a.ReadWriteCloser.Write(data)
}

func (a *appendingSftp) watch(data []byte) {
	for len(data) > 0 {
		if a.left == 0 { // the length of a packet
			n := min(4-len(a.head), len(data))
			a.head, data = append(a.head, data[:n]...), data[n:]
			if len(a.head) == 4 {
				a.left = binary.BigEndian.Uint32(a.head)
				a.head = a.head[:0]
				if a.left == 0 {
					continue
				}
			}
			continue
		}
		n := int(min(uint64(a.left), uint64(len(data))))
		if room := longestSftpHead - len(a.head); room > 0 {
			a.head = append(a.head, data[:min(room, n)]...)
		}
		data = data[n:]
		if a.left -= uint32(n); a.left == 0 {
			a.onAnswer(a.head)
			a.head = a.head[:0]
		}
	}
}

func (a *appendingSftp) onAnswer(body []byte) {
	if len(body) < 5 || (body[0] != sftpHandle && body[0] != sftpStatus) {
		return
	}
	a.mu.Lock()
	defer a.mu.Unlock()
	id := binary.BigEndian.Uint32(body[1:])
	end, known := a.opening[id]
	if !known {
		return
	}
	delete(a.opening, id)
	if handle, _, ok := sftpString(body[5:]); ok && body[0] == sftpHandle {
		a.ends[handle] = end
	}
}

func sftpString(data []byte) (text string, rest []byte, ok bool) {
	if len(data) < 4 {
		return "", nil, false
	}
	length := uint64(binary.BigEndian.Uint32(data))
	if length > uint64(len(data)-4) {
		return "", nil, false
	}
	return string(data[4 : 4+length]), data[4+length:], true
}
