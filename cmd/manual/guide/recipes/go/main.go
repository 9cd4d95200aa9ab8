// Command go puts three mails into the tube go-mail, or sends them: go run . put|work
package main

import (
	"cmp"
	"errors"
	"fmt"
	"log"
	"net"
	"os"
	"time"

	"github.com/beanstalkd/go-beanstalk"
)

func main() {
	address := net.JoinHostPort(cmp.Or(os.Getenv("BEANSTALKD_HOST"), "127.0.0.1"), cmp.Or(os.Getenv("BEANSTALKD_PORT"), "11300"))
	queue, err := beanstalk.Dial("tcp", address)
	if err != nil {
		log.Fatal(err)
	}
	defer queue.Close()
	if len(os.Args) == 2 && os.Args[1] == "put" {
		err = put(queue)
	} else {
		err = work(queue)
	}
	if err != nil {
		log.Fatal(err)
	}
}

func put(queue *beanstalk.Conn) error {
	tube := beanstalk.NewTube(queue, "go-mail")
	for _, to := range []string{"alice", "bob", "nobody"} {
		id, err := tube.Put([]byte(to), 100, 0, time.Minute) // priority, delay, time to run
		if err != nil {
			return err
		}
		fmt.Println("put job", id)
	}
	return nil
}

func work(queue *beanstalk.Conn) error {
	tubes := beanstalk.NewTubeSet(queue, "go-mail")
	for {
		id, body, err := tubes.Reserve(time.Minute)
		switch {
		case errors.Is(err, beanstalk.ErrTimeout):
			continue
		case errors.Is(err, beanstalk.ErrDeadline):
			// A goroutine holds a job that ends within a second: it must finish or Touch the job.
			time.Sleep(time.Second / 4)
			continue
		case err != nil:
			return err
		case string(body) == "nobody":
			log.Printf("buried job %d: %s has no address", id, body)
			err = queue.Bury(id, 100)
		default:
			fmt.Printf("sent to %s\n", body)
			err = queue.Delete(id)
		}
		if err != nil {
			return err
		}
	}
}
