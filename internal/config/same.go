package config

import "reflect"

// Same tells whether two parts of configurations say the same, wherever they
// were written: one that only moved within its file is the same.
func Same(a, b any) bool { return same(reflect.ValueOf(a), reflect.ValueOf(b)) }

func same(a, b reflect.Value) bool {
	if !a.IsValid() || !b.IsValid() || a.Type() != b.Type() {
		return a.IsValid() == b.IsValid() && !a.IsValid()
	}
	switch a.Kind() {
	case reflect.Struct:
		if a.Type() == reflect.TypeFor[Place]() {
			return true
		}
		for i := range a.NumField() {
			if !same(a.Field(i), b.Field(i)) {
				return false
			}
		}
		return true
	case reflect.Pointer, reflect.Interface:
		if a.IsNil() || b.IsNil() {
			return a.IsNil() && b.IsNil()
		}
		return same(a.Elem(), b.Elem())
	case reflect.Slice, reflect.Array:
		if a.Len() != b.Len() {
			return false
		}
		for i := range a.Len() {
			if !same(a.Index(i), b.Index(i)) {
				return false
			}
		}
		return true
	case reflect.Map:
		return sameMaps(a, b)
	case reflect.Func:
		return a.IsNil() && b.IsNil()
	default:
		return a.Equal(b)
	}
}

func sameMaps(a, b reflect.Value) bool {
	if a.Len() != b.Len() {
		return false
	}
	for _, key := range a.MapKeys() { //arch:sorted all of them must be the same
		if !b.MapIndex(key).IsValid() || !same(a.MapIndex(key), b.MapIndex(key)) {
			return false
		}
	}
	return true
}
