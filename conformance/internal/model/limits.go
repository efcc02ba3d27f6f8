package model

import (
	"context"

	"github.com/pawlhq/pawl/store"
)

// PutLimits fails with store.ErrUnsupported: the backend has no limits yet.
func (*Store) PutLimits(context.Context, store.PutLimitsParams) error { return store.ErrUnsupported }

// SetLimit fails with store.ErrUnsupported: the backend has no limits yet.
func (*Store) SetLimit(context.Context, store.SetLimitParams) error { return store.ErrUnsupported }

// ListLimits fails with store.ErrUnsupported: the backend has no limits yet.
func (*Store) ListLimits(context.Context, store.ListLimitsParams) (out store.LimitPage, err error) {
	return out, store.ErrUnsupported
}

// LimitKeys fails with store.ErrUnsupported: the backend has no limits yet.
func (*Store) LimitKeys(context.Context, store.LimitKeysParams) (out store.LimitKeyPage, err error) {
	return out, store.ErrUnsupported
}

// SetWeight fails with store.ErrUnsupported: the backend has no limits yet.
func (*Store) SetWeight(context.Context, store.SetWeightParams) error { return store.ErrUnsupported }
