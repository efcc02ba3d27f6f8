package exec

import "github.com/pawlhq/pawl/store"

// ChildPages goes through the children of a group, in the order of their ordinals, in
// pages of some megabytes whatever their size. read makes the call; fn returns false to
// end.
func ChildPages(p store.ChildrenParams, read func(p store.ChildrenParams) (store.ChildPage, error), fn func(run *store.Run) bool) error {
	p.Limit, p.MaxBytes = firstPage, store.DefaultClaimBytes
	for {
		page, err := read(p)
		if err != nil {
			return err
		}
		whole := 0
		for whole < len(page.Children) && !page.Children[whole].Omitted {
			if !fn(&page.Children[whole]) {
				return nil
			}
			p.After = page.Children[whole].Ordinal
			whole++
		}
		if page.Next == 0 && whole == len(page.Children) {
			return nil
		}
		p.Limit = min(store.MaxPage, max(1, 2*whole)) // what comes without its output is read again
	}
}

// firstPage is how many children are read before their size is known.
const firstPage = 100
