//go:build !linux

package app_test

import "os"

func fdatasync(f *os.File) error { return f.Sync() }
