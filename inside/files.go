package main

import (
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"sort"
	"strings"
	"sync"
	"syscall"
	"time"

	"golang.org/x/sys/unix"
)

// Files does what CodeHub's API asks of files, with the rights of this user and no others. The answer is one line of
// JSON, and after it the bytes of a file or a tar.
type Files struct {
	home  string
	out   *os.File
	input *framedInput

	mutex     sync.Mutex
	unwritten string // a temporary file to be removed if the connection is lost
}

// Entry is one file, link or directory.
type Entry struct {
	Name       string    `json:"name"`
	Type       string    `json:"type"` // file, directory, symlink, other
	Size       int64     `json:"size"`
	Mode       string    `json:"mode"`
	ModifiedAt time.Time `json:"modified_at"`
	Target     string    `json:"target,omitempty"` // of a symlink
}

// Answer is the line before the data.
type Answer struct {
	Entry     *Entry         `json:"entry,omitempty"`
	Entries   []Entry        `json:"entries,omitempty"`
	Truncated bool           `json:"truncated,omitempty"`
	Length    int64          `json:"length,omitempty"` // bytes that follow
	Listeners []Listener     `json:"listeners,omitempty"`
	Home      string         `json:"home,omitempty"` // with listeners
	Processes []ProcessEntry `json:"processes,omitempty"`
	Error     string         `json:"error,omitempty"` // as errorCode has them
	Message   string         `json:"message,omitempty"`
}

var (
	errTooLarge = errors.New("more bytes than are allowed")
	errHome     = errors.New("the home itself cannot be moved or deleted")
	errNoFile   = errors.New("neither a file nor a directory")
)

func (f *Files) serve(request Request) int {
	var answer *Answer
	var err error
	path := f.resolve(request.Path)
	switch request.Do {
	case "stat":
		answer, err = statAnswer(path)
	case "list":
		answer, err = f.list(path, request.Limit)
	case "read":
		err = f.read(path, request.Offset, request.Length)
	case "write":
		answer, err = f.write(path, request)
	case "mkdir":
		answer, err = makeDirectory(path, request.Parents)
	case "move":
		answer, err = f.move(path, f.resolve(request.Target), request.Overwrite)
	case "delete":
		answer, err = f.remove(path, request.Recursive)
	case "pack":
		err = f.pack(path)
	case "unpack":
		answer, err = f.unpack(path, request.Limit)
	case "ports":
		answer = f.ports(request)
	case "process_start", "process_list", "process_kill":
		answer, err = askHolder(request)
	default:
		err = fmt.Errorf("nothing is known of %q", request.Do)
	}
	if err != nil {
		answer = &Answer{Error: errorCode(err), Message: err.Error()}
	}
	if answer != nil && f.say(*answer) != nil {
		return 1
	}
	return 0
}

// say writes the answer's line.
func (f *Files) say(answer Answer) error {
	line, err := json.Marshal(answer)
	if err == nil {
		_, err = f.out.Write(append(line, '\n'))
	}
	return err
}

// resolve makes a path absolute. Nothing else: what it leads to is for the kernel to allow.
func (f *Files) resolve(path string) string {
	if filepath.IsAbs(path) {
		return path
	}
	return f.home + "/" + path
}

func (f *Files) list(path string, limit int64) (*Answer, error) {
	directory, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer directory.Close()
	found, err := directory.ReadDir(int(limit) + 1)
	if err != nil && err != io.EOF {
		return nil, err
	}
	answer := &Answer{Entries: []Entry{}, Truncated: int64(len(found)) > limit}
	if answer.Truncated {
		found = found[:limit]
	}
	for _, each := range found {
		if info, err := each.Info(); err == nil { // otherwise it was removed meanwhile
			answer.Entries = append(answer.Entries, describe(filepath.Join(path, each.Name()), info))
		}
	}
	sort.Slice(answer.Entries, func(i, j int) bool { return answer.Entries[i].Name < answer.Entries[j].Name })
	return answer, nil
}

func (f *Files) ports(request Request) *Answer {
	found := namedListeners(request.OwnOnly)
	truncated := int64(len(found)) > request.Limit
	if truncated {
		found = found[:request.Limit]
	}
	return &Answer{Listeners: found, Home: f.home, Truncated: truncated}
}

func (f *Files) read(path string, offset, length int64) error {
	// A named pipe would wait for a writer.
	file, err := os.OpenFile(path, os.O_RDONLY|syscall.O_NONBLOCK, 0)
	if err != nil {
		return err
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return err
	}
	if !info.Mode().IsRegular() {
		return &fs.PathError{Op: "read", Path: path, Err: syscall.EISDIR}
	}
	rest := max(info.Size()-offset, 0)
	if length < 0 || length > rest {
		length = rest
	}
	if _, err := file.Seek(offset, io.SeekStart); err != nil {
		return err
	}
	entry := describe(path, info)
	if err := f.say(Answer{Entry: &entry, Length: length}); err != nil {
		return nil // nobody is there
	}
	_, _ = io.CopyN(f.out, file, length) // a file that became shorter ends early, and CodeHub sees that
	return nil
}

func makeDirectory(path string, parents bool) (*Answer, error) {
	var err error
	if parents {
		err = os.MkdirAll(path, 0o777)
	} else {
		err = os.Mkdir(path, 0o777)
	}
	if err != nil {
		return nil, err
	}
	return statAnswer(path)
}

func (f *Files) move(source, target string, overwrite bool) (*Answer, error) {
	if f.holdsHome(source) {
		return nil, errHome
	}
	flags := uint(unix.RENAME_NOREPLACE)
	if overwrite {
		flags = 0
	}
	if err := unix.Renameat2(unix.AT_FDCWD, source, unix.AT_FDCWD, target, flags); err != nil {
		return nil, &os.LinkError{Op: "move", Old: source, New: target, Err: err}
	}
	return statAnswer(target)
}

func (f *Files) remove(path string, recursive bool) (*Answer, error) {
	if f.holdsHome(path) {
		return nil, errHome
	}
	if _, err := os.Lstat(path); err != nil {
		return nil, err
	}
	if recursive {
		return &Answer{}, os.RemoveAll(path) // does not follow links
	}
	return &Answer{}, os.Remove(path)
}

// holdsHome says whether a path is the home, or a directory above it.
func (f *Files) holdsHome(path string) bool {
	clean := strings.TrimSuffix(filepath.Clean(path), "/")
	return strings.HasPrefix(filepath.Clean(f.home)+"/", clean+"/")
}

func statAnswer(path string) (*Answer, error) {
	info, err := os.Lstat(path)
	if err != nil {
		return nil, err
	}
	entry := describe(path, info)
	return &Answer{Entry: &entry}, nil
}

func describe(path string, info fs.FileInfo) Entry {
	entry := Entry{
		Name:       info.Name(),
		Type:       "other",
		Size:       info.Size(),
		Mode:       fmt.Sprintf("%04o", info.Mode().Perm()),
		ModifiedAt: info.ModTime().UTC(),
	}
	switch {
	case info.Mode().IsRegular():
		entry.Type = "file"
	case info.IsDir():
		entry.Type = "directory"
	case info.Mode()&fs.ModeSymlink != 0:
		entry.Type = "symlink"
		entry.Target, _ = os.Readlink(path)
	}
	return entry
}

// errorCode sorts an error into what CodeHub's API tells apart.
func errorCode(err error) string {
	var number syscall.Errno
	var unstarted *startError
	switch {
	case errors.Is(err, errTooLarge):
		return "too_large"
	case errors.Is(err, errNoProcess):
		return "no_process"
	case errors.As(err, &unstarted):
		return "not_started"
	case errors.Is(err, errProcessesFull):
		return "busy"
	case errors.Is(err, errHome):
		return "refused"
	case errors.Is(err, errNoFile):
		return "conflict"
	case !errors.As(err, &number):
		return "failed"
	}
	switch number {
	case syscall.ENOENT:
		return "not_found"
	case syscall.EEXIST, syscall.ENOTEMPTY, syscall.ENOTDIR, syscall.EISDIR, syscall.EXDEV, syscall.EBUSY,
		syscall.ELOOP, syscall.ENXIO, syscall.ETXTBSY, syscall.ENAMETOOLONG, syscall.EINVAL:
		return "conflict"
	case syscall.EACCES, syscall.EPERM, syscall.EROFS:
		return "refused"
	case syscall.ENOSPC, syscall.EDQUOT:
		return "no_space"
	}
	return "failed"
}
