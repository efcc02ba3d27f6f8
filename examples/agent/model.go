package main

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	"github.com/pawlhq/pawl/workflow"
)

// client asks the model at an address. The model sends a JSON string for each word, one a line, and an
// empty string when it has finished.
func client(url string) func(ctx context.Context, prompt string, each func(word string) error) (string, error) {
	return func(ctx context.Context, prompt string, each func(word string) error) (string, error) {
		body, err := json.Marshal(map[string]string{"prompt": prompt})
		if err != nil {
			return "", err
		}
		req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(string(body)))
		if err != nil {
			return "", err
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			return "", err
		}
		defer res.Body.Close()
		switch {
		case res.StatusCode == http.StatusBadRequest:
			return "", workflow.Permanent(fmt.Errorf("the model refuses the prompt: %s", res.Status))
		case res.StatusCode != http.StatusOK:
			return "", fmt.Errorf("the model answers %s", res.Status)
		}
		var text []string
		for lines := bufio.NewScanner(res.Body); lines.Scan(); {
			var word string
			if err := json.Unmarshal(lines.Bytes(), &word); err != nil {
				return "", fmt.Errorf("the model's answer: %w", err)
			}
			if word == "" {
				return strings.Join(text, " "), nil
			}
			if err := each(word); err != nil {
				return "", err
			}
			text = append(text, word)
		}
		return "", fmt.Errorf("the model has stopped after %d words", len(text))
	}
}

// serveModel starts a model on loopback that repeats the prompt's words, slowly. It returns its address
// and what ends it.
func serveModel() (url string, end func(), err error) {
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		return "", nil, err
	}
	s := &http.Server{Handler: http.HandlerFunc(makeUp), ReadHeaderTimeout: 10 * time.Second}
	go func() { _ = s.Serve(listener) }()
	return "http://" + listener.Addr().String(), func() { _ = s.Close() }, nil
}

func makeUp(w http.ResponseWriter, r *http.Request) {
	var in struct{ Prompt string }
	if err := json.NewDecoder(r.Body).Decode(&in); err != nil || in.Prompt == "" {
		http.Error(w, "no prompt", http.StatusBadRequest)
		return
	}
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for _, word := range append(strings.Fields("I have thought about it. "+in.Prompt+" That is all."), "") {
		line, _ := json.Marshal(word) // a string
		if _, err := fmt.Fprintf(w, "%s\n", line); err != nil {
			return
		}
		_ = http.NewResponseController(w).Flush()
		select {
		case <-tick.C:
		case <-r.Context().Done():
			return
		}
	}
}
