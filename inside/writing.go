package main

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"syscall"
)

const temporaryName = ".codehub-*.part"

// write replaces a file's content at once: the data goes to a temporary file beside it, which gets its name when it is
// complete. Whoever reads it meanwhile has the old content or the new, never a part.
func (f *Files) write(path string, request Request) (*Answer, error) {
	if request.Parents {
		if err := os.MkdirAll(filepath.Dir(path), 0o777); err != nil {
			return nil, err
		}
	}
	if target, err := filepath.EvalSymlinks(path); err == nil {
		path = target // a link stays one
	}
	mode := fs.FileMode(0o666 &^ currentUmask())
	switch info, err := os.Stat(path); {
	case err == nil && !request.Overwrite:
		return nil, &fs.PathError{Op: "write", Path: path, Err: syscall.EEXIST}
	case err == nil && info.IsDir():
		return nil, &fs.PathError{Op: "write", Path: path, Err: syscall.EISDIR}
	case err == nil && !info.Mode().IsRegular():
		return nil, errNoFile
	case err == nil:
		mode = info.Mode().Perm()
	}
	temporary, err := f.receiveInto(filepath.Dir(path), mode, request.Limit)
	if err != nil {
		return nil, err
	}
	defer f.abandon()
	if request.Overwrite {
		err = os.Rename(temporary, path)
	} else {
		err = os.Link(temporary, path) // fails if somebody made it meanwhile
	}
	if err != nil {
		return nil, err
	}
	return statAnswer(path)
}

// receiveInto writes the data to a temporary file, which abandon removes.
func (f *Files) receiveInto(directory string, mode fs.FileMode, limit int64) (string, error) {
	file, err := os.CreateTemp(directory, temporaryName)
	if err != nil {
		return "", err
	}
	f.mutex.Lock()
	f.unwritten = file.Name()
	f.mutex.Unlock()
	count, err := io.Copy(file, io.LimitReader(f.input.data, limit+1))
	if err == nil && count > limit {
		err = errTooLarge
	}
	err = errors.Join(err, file.Chmod(mode), file.Sync(), file.Close())
	if err != nil {
		f.abandon()
	}
	return file.Name(), err
}

// abandon removes the temporary file, if it has not got its name.
func (f *Files) abandon() {
	f.mutex.Lock()
	defer f.mutex.Unlock()
	if f.unwritten != "" {
		_ = os.Remove(f.unwritten)
		f.unwritten = ""
	}
}

func currentUmask() uint32 {
	mask := syscall.Umask(0)
	syscall.Umask(mask)
	return uint32(mask)
}
