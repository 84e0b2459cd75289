package promptcache_test

// Would catch: an example of the documentation that does not compile, or prints something else.

import (
	"context"
	"errors"
	"fmt"
	"log"
	"os"

	"promptcache"
)

// A prompt of cached modules: the first answer computes their states, the second one reuses them.
func Example() {
	ctx := context.Background()
	model, err := promptcache.LoadModel(ctx, "../../models/demo/demo.gguf", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer model.Close()
	schema, err := model.LoadSchema("../../examples/pml/employees.pml", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer schema.Close()
	prompt, err := schema.LoadPrompt("../../examples/pml/employees-prompt.pml", nil)
	if err != nil {
		log.Fatal(err)
	}
	defer prompt.Close()
	cache, err := promptcache.NewCache(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer cache.Close()
	for i := 0; i < 2; i++ {
		answer, err := prompt.Generate(ctx, cache, nil)
		if err != nil {
			log.Fatal(err)
		}
		fmt.Println(answer.Text())
		fmt.Println(answer.Stats.TokensCached, "of", answer.Stats.TokensPrompt,
			"tokens came from the cache")
	}
	// Output:
	// The desk of Peter Novak is 368.
	// 0 of 601 tokens came from the cache
	// The desk of Peter Novak is 368.
	// 590 of 601 tokens came from the cache
}

// Text as it becomes final; a context.Context can end it.
func ExamplePrompt_Stream() {
	prompt, err := employees.LoadPrompt(pmlFolder+"employees-prompt.pml", nil)
	if err != nil {
		log.Fatal(err)
	}
	stream, err := prompt.Stream(context.Background(), nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	for stream.Next() {
		fmt.Print(stream.Text(), "|")
	}
	fmt.Println(stream.Err(), stream.Finish())
	// Output: The| desk| of| Peter| Novak| is| 368|.|<nil> stop token
}

// A stream is an io.WriterTo.
func ExampleStream_WriteTo() {
	prompt, _ := employees.LoadPrompt(pmlFolder+"employees-job-prompt.pml", nil)
	stream, err := prompt.Stream(context.Background(), nil, nil)
	if err != nil {
		log.Fatal(err)
	}
	defer stream.Close()
	if _, err := stream.WriteTo(os.Stdout); err != nil {
		log.Fatal(err)
	}
	// Output: The job of Alice Chen is librarian.
}

// Two requests that share modules are stepped together.
func ExampleBatch() {
	ctx := context.Background()
	batch, err := model.NewBatch(nil)
	if err != nil {
		log.Fatal(err)
	}
	defer batch.Close()
	var sequences []*promptcache.Sequence
	for _, name := range []string{"employees-prompt.pml", "employees-job-prompt.pml"} {
		prompt, err := employees.LoadPrompt(pmlFolder+name, nil)
		if err != nil {
			log.Fatal(err)
		}
		sequence, err := prompt.NewSequence(ctx, nil, nil)
		if err == nil {
			err = batch.Add(sequence)
		}
		if err != nil {
			log.Fatal(err)
		}
		defer sequence.Close()
		sequences = append(sequences, sequence)
	}
	if err := batch.Run(ctx); err != nil {
		log.Fatal(err)
	}
	for _, sequence := range sequences {
		fmt.Println(sequence.Text(), sequence.Err())
	}
	// Output:
	// The desk of Peter Novak is 368. <nil>
	// The job of Alice Chen is librarian. <nil>
}

// An error names place and cause, and is compared with a Status.
func ExampleError() {
	_, err := model.ParseSchema("<schema name=\"a\">\n  <modul name=\"b\"/>\n</schema>", nil)
	var fault *promptcache.Error
	if errors.As(err, &fault) && errors.Is(err, promptcache.ErrPML) {
		fmt.Println("line", fault.Line)
	}
	// Output: line 2
}
