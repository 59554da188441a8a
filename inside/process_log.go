package main

const (
	maxProcessLog = 512 * 1024
	logPiece      = 4096 // shorter pieces of one stream are joined
)

// processLog keeps the latest output of a detached process, both streams in their order. Positions count every byte
// there ever was.
type processLog struct {
	pieces     []logPart
	begin, end int64
}

type logPart struct {
	kind byte // frameOutput or frameErrors
	at   int64
	data []byte
}

func (l *processLog) append(kind byte, data []byte) {
	if last := len(l.pieces) - 1; last >= 0 && l.pieces[last].kind == kind && len(l.pieces[last].data)+len(data) <= logPiece {
		l.pieces[last].data = append(l.pieces[last].data, data...)
	} else {
		l.pieces = append(l.pieces, logPart{kind, l.end, append([]byte(nil), data...)})
	}
	l.end += int64(len(data))
	for l.end-l.begin > maxProcessLog {
		l.begin += int64(len(l.pieces[0].data))
		l.pieces = l.pieces[1:]
	}
}

// read returns the next bytes at or after a position, and the position after them; no bytes: there are none yet.
func (l *processLog) read(position int64) (kind byte, data []byte, next int64) {
	position = max(position, l.begin)
	for _, each := range l.pieces {
		if end := each.at + int64(len(each.data)); position < end {
			data = append([]byte(nil), each.data[position-each.at:]...)
			return each.kind, data[:min(len(data), outputPiece)], position + int64(min(len(data), outputPiece))
		}
	}
	return 0, nil, position
}
