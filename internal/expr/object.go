package expr

import (
	"errors"
	"fmt"
	"reflect"

	"cel.dev/cel-go/cel"
	"cel.dev/cel-go/common/types"
	"cel.dev/cel-go/common/types/ref"
)

const (
	eventName  = "attend.Event"
	recentName = "attend.Recent"
)

func eventType() *cel.Type  { return cel.ObjectType(eventName) }
func recentType() *cel.Type { return cel.ObjectType(recentName) }

// fieldsOf lists the fields of an object type, in the order in which they are
// told to people.
func fieldsOf(typeName string) []variable {
	switch typeName {
	case eventName:
		return []variable{
			{"id", cel.StringType},
			{"name", cel.StringType},
			{"kind", cel.StringType},
			{"text", cel.StringType},
			{"data", cel.DynType},
			{"seenAt", cel.TimestampType},
		}
	case recentName:
		return []variable{
			{"window", cel.StringType}, {"at", cel.TimestampType}, {"route", cel.StringType}, {"judgedRoute", cel.StringType},
		}
	default:
		return nil
	}
}

// object is an event or a recent verdict. Its fields are worked out when they
// are looked at, so that JSON that no condition reads is never decoded.
type object struct {
	typ   *cel.Type
	index int                         // tells the objects of a type apart: its place in the list
	field func(name string) ref.Val   // nil where there is no such field
	has   func(name string) (is bool) // nil: every field is there
}

var _ ref.Val = (*object)(nil)

// Get returns a field.
func (o *object) Get(index ref.Val) ref.Val {
	if name, ok := index.(types.String); ok {
		if v := o.field(string(name)); v != nil {
			return v
		}
	}
	return types.NewErr("no such field: %v", index.Value())
}

// IsSet reports whether a field holds something, as has() asks.
func (o *object) IsSet(field ref.Val) ref.Val {
	name, ok := field.(types.String)
	if !ok || o.field(string(name)) == nil {
		return types.NewErr("no such field: %v", field.Value())
	}
	return types.Bool(o.has == nil || o.has(string(name)))
}

// Equal reports whether the other is the same event, or the same verdict.
func (o *object) Equal(other ref.Val) ref.Val {
	p, ok := other.(*object)
	return types.Bool(ok && p.typ.TypeName() == o.typ.TypeName() && p.index == o.index)
}

// ConvertToNative fails: objects do not leave an expression.
func (o *object) ConvertToNative(reflect.Type) (any, error) {
	return nil, errors.New("an event cannot be the value of an expression: take one of its fields")
}

// ConvertToType knows the object's own type alone.
func (o *object) ConvertToType(t ref.Type) ref.Val {
	if t == types.TypeType {
		return o.typ
	}
	return types.NewErr("cannot make %s of %s", t.TypeName(), o.typ.TypeName())
}

// Type returns the object's type.
func (o *object) Type() ref.Type { return o.typ }

// Value returns the object itself.
func (o *object) Value() any { return o }

// provider tells the checker the fields of the objects.
type provider struct{ *types.Registry }

func (p provider) FindStructType(name string) (*types.Type, bool) {
	if fieldsOf(name) != nil {
		return types.NewTypeTypeWithParam(cel.ObjectType(name)), true
	}
	return p.Registry.FindStructType(name)
}

func (p provider) FindStructFieldNames(name string) ([]string, bool) {
	fields := fieldsOf(name)
	if fields == nil {
		return p.Registry.FindStructFieldNames(name)
	}
	names := make([]string, len(fields))
	for i, f := range fields {
		names[i] = f.name
	}
	return names, true
}

func (p provider) FindStructFieldType(name, field string) (*types.FieldType, bool) {
	fields := fieldsOf(name)
	if fields == nil {
		return p.Registry.FindStructFieldType(name, field)
	}
	for _, f := range fields {
		if f.name == field {
			return &types.FieldType{Type: f.typ, IsSet: isSet(field), GetFrom: getFrom(field)}, true
		}
	}
	return nil, false
}

func isSet(field string) ref.FieldTester {
	return func(target any) bool {
		o, ok := target.(*object)
		return ok && (o.has == nil || o.has(field))
	}
}

func getFrom(field string) ref.FieldGetter {
	return func(target any) (any, error) {
		if o, ok := target.(*object); ok {
			return o.field(field), nil
		}
		return nil, fmt.Errorf("no field %s in %T", field, target)
	}
}
