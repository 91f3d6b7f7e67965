package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
)

func ExampleClient_Check() {
	client := connect()
	defer client.Close()

	fit := func(ctx context.Context) error {
		found, err := client.Check(ctx, "app:orders") // some names, if the user has permission only for some keys
		if err != nil {
			return err // the check itself failed
		}
		for _, f := range found {
			log.Println(f)
		}
		if len(found) > 0 && found[0].Severity == holdfast.SeverityDanger { // the most serious finding is the first
			return errors.New("the server is not fit for locks")
		}
		return nil
	}
	fmt.Println(fit(context.Background()))
	// Output: <nil>
}
