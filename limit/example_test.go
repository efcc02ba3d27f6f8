package limit_test

import (
	"fmt"
	"time"

	"github.com/pawlhq/pawl/engine"
	"github.com/pawlhq/pawl/limit"
	"github.com/pawlhq/pawl/workflow"
)

func ExampleNew() {
	github := limit.New("github", limit.Rate(5000, time.Hour, limit.Burst(100)), limit.Concurrency(20))
	fmt.Println(github.Name(), github.Err())
	fmt.Println(engine.RuleText(github.Rule()))
	fmt.Println(limit.New("none").Err())
	// Output:
	// github <nil>
	// 20 at a time, 5000 per 1h0m0s with a burst of 100
	// invalid limit none: it limits nothing: give it limit.Concurrency, limit.Rate or limit.Fair
}

// Of each tenant, three pages are crawled at a time, and the tenants take turns.
func ExampleFair() {
	type page struct{ Tenant, URL string }
	tenants := limit.New("tenant", limit.Concurrency(3), limit.Fair())
	crawl := workflow.New("crawl", func(workflow.Context, page) (int, error) { return 200, nil },
		workflow.UnderKey(tenants, func(p page) string { return p.Tenant }))
	fmt.Println(crawl.Name())
	// Output: crawl
}

// A start by name gives a use of a limit itself.
func ExampleLimit_Use() {
	mail := limit.New("mail", limit.Rate(10, time.Second, limit.Burst(5)))
	use, err := mail.Use(limit.Key("acme"), limit.Tokens(2))
	fmt.Println(use.Limit, use.Key, use.Tokens, err)
	_, err = mail.Use(limit.Tokens(6))
	fmt.Println(err)
	// Output:
	// mail acme 2 <nil>
	// invalid use of limit mail: 6 tokens are more than the limit's burst of 5
}
