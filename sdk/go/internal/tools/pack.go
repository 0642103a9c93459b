package main

import (
	"os"
	"path/filepath"

	"golang.org/x/mod/module"
	"golang.org/x/mod/zip"
)

// pack creates the archive that a user's go command downloads, and unpacks it to a new directory.
func pack(from, to string) error {
	version := module.Version{Path: "kent.example/kent-go", Version: "v0.0.0"}
	if err := os.MkdirAll(filepath.Dir(to), 0o755); err != nil {
		return err
	}
	archive, err := os.Create(to + ".zip")
	if err != nil {
		return err
	}
	defer archive.Close()
	if err := zip.CreateFromDir(archive, version, from); err != nil {
		return err
	}
	return zip.Unzip(to, version, archive.Name())
}
