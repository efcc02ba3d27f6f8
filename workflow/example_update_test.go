package workflow_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/pawlhq/pawl/workflow"
)

// Withdraw asks an account for money. The answer is the new balance.
var Withdraw = workflow.NewUpdate[int, int]("withdraw")

// Purse answers three requests.
var Purse = workflow.New("purse", func(ctx workflow.Context, balance int) (int, error) {
	for range 3 {
		err := Withdraw.Handle(ctx, func(_ workflow.Context, n int) (int, error) {
			if n > balance {
				return 0, errors.New("not enough money")
			}
			balance -= n
			return balance, nil
		})
		if err != nil {
			return balance, err
		}
	}
	return balance, nil
})

// An update is a request that the run answers.
func ExampleUpdate() {
	eng, stop := serve(Purse)
	defer stop()
	ctx := context.Background()

	h, err := Purse.Start(ctx, eng, 100)
	if err != nil {
		log.Fatal(err)
	}
	fmt.Println(Withdraw.Ask(ctx, h, 30))
	_, err = Withdraw.Ask(ctx, h, 1000)
	var answer *workflow.AnswerError
	fmt.Println(errors.As(err, &answer), answer.Failure.Message)
	fmt.Println(Withdraw.Ask(ctx, h, 20, workflow.SendKey("order-7")))
	fmt.Println(Withdraw.Ask(ctx, h, 20, workflow.SendKey("order-7"))) // the same request
	// Output:
	// 70 <nil>
	// true not enough money
	// 50 <nil>
	// 50 <nil>
}
