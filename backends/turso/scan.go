package turso

import (
	"database/sql"
	"fmt"
	"reflect"
)

// scanRow copies a row into the destinations that a statement's Rows function passes.
func scanRow(row []value, dest []any) error {
	if len(row) != len(dest) {
		return fmt.Errorf("turso: a row has %d columns, but the statement expects %d", len(row), len(dest))
	}
	for i := range dest {
		if err := scan(row[i].any, dest[i]); err != nil {
			return fmt.Errorf("turso: column %d: %w", i, err)
		}
	}
	return nil
}

func scan(v, dest any) error {
	switch d := dest.(type) {
	case sql.Scanner:
		return d.Scan(v)
	case *any:
		*d = v
		return nil
	case *string:
		if s, ok := v.(string); ok {
			*d = s
			return nil
		}
	case *int64:
		if n, ok := v.(int64); ok {
			*d = n
			return nil
		}
	case *[]byte:
		if b, ok := v.([]byte); ok {
			*d = b
			return nil
		}
	}
	p := reflect.ValueOf(dest).Elem()
	if p.Kind() == reflect.Pointer { // for a value that may be NULL
		if v == nil {
			p.SetZero()
			return nil
		}
		p.Set(reflect.New(p.Type().Elem()))
		return scan(v, p.Interface())
	}
	switch v := v.(type) {
	case int64:
		switch {
		case p.Kind() == reflect.Bool:
			p.SetBool(v != 0)
			return nil
		case p.CanInt() && !p.OverflowInt(v):
			p.SetInt(v)
			return nil
		case p.CanUint() && v >= 0 && !p.OverflowUint(uint64(v)):
			p.SetUint(uint64(v))
			return nil
		}
	case string:
		if p.Kind() == reflect.String {
			p.SetString(v)
			return nil
		}
	}
	return fmt.Errorf("cannot scan %T into %T", v, dest)
}
