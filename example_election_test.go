package holdfast_test

import (
	"context"
	"errors"
	"fmt"
	"log"

	"github.com/holdfast-go/holdfast"
)

// One of many processes is the leader. Every process can observe which one.
func ExampleElection_Campaign() {
	ctx, stop := context.WithCancel(context.Background())
	defer stop()
	client := connect()
	defer client.Close()
	election := client.Election("example:scheduler")

	observing := make(chan bool)
	go func() { // another process would do the same
		defer close(observing)
		for leader, err := range election.Observe(ctx) {
			switch {
			case err != nil:
				log.Print(err) // the loop continues if the server is only unavailable
			case leader.Term == 0:
				fmt.Println("no leader")
			default:
				fmt.Println("the leader is", leader.Name)
			}
			observing <- true
		}
	}()
	<-observing

	lease, err := election.Campaign(ctx, "10.0.0.7:8080")
	if err != nil {
		log.Fatal(err)
	}
	<-observing
	// Lead until lease.Context() is done. Send the term, lease.Token(), with every
	// request that only a leader may send.
	_, err = election.TryCampaign(ctx, "10.0.0.8:8080")
	fmt.Println("another candidate is refused:", errors.Is(err, holdfast.ErrNotAcquired))

	lease.Release(ctx) // resign
	<-observing
	stop()
	<-observing // the loop has ended
	// Output:
	// no leader
	// the leader is 10.0.0.7:8080
	// another candidate is refused: true
	// no leader
}

// Lead is for work that must run in some process, but never in two at a time.
func ExampleElection_Lead() {
	ctx := context.Background()
	client := connect()
	defer client.Close()
	election := client.Election("example:cleaner")

	err := election.Lead(ctx, "host-7", func(ctx context.Context) error {
		leader, err := election.Leader(ctx)
		if err != nil {
			return err
		}
		fmt.Println(leader.Name, "leads")
		fmt.Println("its term is its token:", leader.Term == holdfast.LeaseOf(ctx).Token())
		// Work until ctx is done, which means that the lead is lost. Lead calls
		// this function again when this process is the leader again.
		return errors.New("out of work")
	})
	fmt.Println(err)

	leader, err := election.Leader(ctx)
	fmt.Println("no leader:", leader == holdfast.Leader{}, err)
	// Output:
	// host-7 leads
	// its term is its token: true
	// out of work
	// no leader: true <nil>
}
