package main

import "bytes"

const (
	ringBytes   = 256 * 1024
	replayBytes = 192 * 1024 // less than the ring: what is printed during a replay does not overwrite it
	partialLine = 4096
)

// outputRing keeps the latest output of a terminal. Positions count every byte there ever was.
type outputRing struct {
	kept [ringBytes]byte
	end  int64 // position after the latest byte
}

func (r *outputRing) append(data []byte) {
	for len(data) > 0 {
		count := copy(r.kept[r.end%ringBytes:], data)
		data = data[count:]
		r.end += int64(count)
	}
}

// read copies bytes from a position on, up to a limit.
func (r *outputRing) read(position, limit int64, buffer []byte) int {
	begin := position % ringBytes
	available := min(limit-position, ringBytes-begin, int64(len(buffer)))
	return copy(buffer, r.kept[begin:begin+available])
}

// replayFrom is where a replay begins. What was cut off in the middle begins with a whole line, if one is near: half a
// control sequence would be shown as letters.
func (r *outputRing) replayFrom() int64 {
	if r.end <= replayBytes {
		return 0
	}
	begin := r.end - replayBytes
	near := make([]byte, partialLine)
	count := r.read(begin, r.end, near)
	if at := bytes.IndexByte(near[:count], '\n'); at >= 0 {
		return begin + int64(at) + 1
	}
	return begin
}
