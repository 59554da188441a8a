package main

import (
	"archive/tar"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"syscall"
)

// pack writes a directory or a file as a tar. Names begin with its own name; sockets, pipes and devices are left out.
func (f *Files) pack(root string) error {
	info, err := os.Lstat(root)
	if err != nil {
		return err
	}
	entry := describe(root, info)
	if entry.Type == "other" {
		return errNoFile
	}
	if err := f.say(Answer{Entry: &entry, Length: -1}); err != nil {
		return nil // nobody is there
	}
	out := framedOutput{f.out}
	archive := tar.NewWriter(out)
	base := filepath.Base(filepath.Clean(root))
	if base == "/" {
		base = "."
	}
	err = filepath.WalkDir(root, func(name string, found fs.DirEntry, err error) error {
		if err != nil {
			return skipUnreadable(err)
		}
		relative, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		return packOne(archive, name, path.Join(base, filepath.ToSlash(relative)), found)
	})
	if err == nil {
		err = archive.Close()
	}
	if err == nil {
		err = out.end() // without this whoever reads it knows that it is not complete
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "inside: %v\n", err)
		os.Exit(1)
	}
	return nil
}

func packOne(archive *tar.Writer, name, shown string, found fs.DirEntry) error {
	info, err := found.Info()
	if err != nil {
		return skipUnreadable(err)
	}
	target := ""
	switch {
	case info.Mode()&fs.ModeSymlink != 0:
		if target, err = os.Readlink(name); err != nil {
			return skipUnreadable(err)
		}
	case !info.Mode().IsRegular() && !info.IsDir():
		return nil
	}
	var file *os.File
	if info.Mode().IsRegular() {
		if file, err = os.OpenFile(name, os.O_RDONLY|syscall.O_NOFOLLOW|syscall.O_NONBLOCK, 0); err != nil {
			return skipUnreadable(err)
		}
		defer file.Close()
		if info, err = file.Stat(); err != nil || !info.Mode().IsRegular() {
			return nil
		}
	}
	header, err := tar.FileInfoHeader(info, target)
	if err != nil {
		return err
	}
	header.Name = shown
	header.Uname, header.Gname = "", ""
	if info.IsDir() {
		header.Name += "/"
	}
	if err := archive.WriteHeader(header); err != nil || file == nil {
		return err
	}
	count, err := io.CopyN(archive, file, info.Size())
	if errors.Is(err, io.EOF) { // it became shorter: the rest is zeros, as with GNU tar
		_, err = io.CopyN(archive, zeros{}, info.Size()-count)
	}
	return err
}

// skipUnreadable leaves out what this user may not read or what was removed meanwhile, and says so.
func skipUnreadable(err error) error {
	if errors.Is(err, fs.ErrPermission) || errors.Is(err, fs.ErrNotExist) {
		fmt.Fprintf(os.Stderr, "inside: left out: %v\n", err)
		return nil
	}
	return err
}

// framedOutput writes frames as framedInput reads them, because nobody knows how long a tar will be.
type framedOutput struct{ out io.Writer }

func (f framedOutput) Write(data []byte) (int, error) {
	if len(data) == 0 {
		return 0, nil
	}
	frame := binary.BigEndian.AppendUint32(make([]byte, 0, 4+len(data)), uint32(len(data)))
	if _, err := f.out.Write(append(frame, data...)); err != nil {
		return 0, err
	}
	return len(data), nil
}

func (f framedOutput) end() error {
	_, err := f.out.Write(make([]byte, 4))
	return err
}

type zeros struct{}

func (zeros) Read(into []byte) (int, error) {
	clear(into)
	return len(into), nil
}

// unpack reads a tar into a directory. Names and links in it lead nowhere else: os.Root follows none that leaves it.
func (f *Files) unpack(directory string, limit int64) (*Answer, error) {
	if err := os.MkdirAll(directory, 0o777); err != nil {
		return nil, err
	}
	root, err := os.OpenRoot(directory)
	if err != nil {
		return nil, err
	}
	defer root.Close()
	archive := tar.NewReader(io.LimitReader(f.input.data, limit))
	for {
		header, err := archive.Next()
		if errors.Is(err, io.EOF) {
			break
		}
		if err == nil {
			err = unpackOne(root, archive, header)
		}
		if err != nil {
			return nil, fmt.Errorf("unpacking: %w", err)
		}
	}
	// The frames' own end, beyond that of the tar: a tar that was cut at a member's border is not complete.
	if _, err := io.Copy(io.Discard, f.input.data); err != nil {
		return nil, err
	}
	return statAnswer(directory)
}

func unpackOne(root *os.Root, archive *tar.Reader, header *tar.Header) error {
	name := filepath.Clean(header.Name)
	if !filepath.IsLocal(name) {
		return fmt.Errorf("%q leads out of the directory: %w", header.Name, syscall.EPERM)
	}
	mode := fs.FileMode(header.Mode).Perm()
	if parent := filepath.Dir(name); parent != "." {
		if err := root.MkdirAll(parent, 0o777); err != nil {
			return err
		}
	}
	switch header.Typeflag {
	case tar.TypeDir:
		return root.MkdirAll(name, mode|0o700)
	case tar.TypeSymlink:
		if err := root.Remove(name); err != nil && !errors.Is(err, fs.ErrNotExist) {
			return err
		}
		return root.Symlink(header.Linkname, name)
	case tar.TypeReg:
		return unpackFile(root, archive, name, mode)
	}
	return nil // nothing else is made: no devices, no pipes, no hard links
}

// unpackFile writes a file under another name first, so that nobody sees a part of it.
func unpackFile(root *os.Root, archive io.Reader, name string, mode fs.FileMode) error {
	temporary := filepath.Join(filepath.Dir(name), ".codehub-"+filepath.Base(name)+".part")
	file, err := root.OpenFile(temporary, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, mode|0o600)
	if err != nil {
		return err
	}
	_, err = io.Copy(file, archive)
	err = errors.Join(err, file.Chmod(mode), file.Close())
	if err == nil {
		err = root.Rename(temporary, name)
	}
	if err != nil {
		_ = root.Remove(temporary)
	}
	return err
}
