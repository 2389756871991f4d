package infra

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"time"
)

// TaskAddress returns the private IPv4 address of this container from the
// metadata of ECS, whose URL is the value of ECS_CONTAINER_METADATA_URI_V4.
func TaskAddress(ctx context.Context, metadata string) (string, error) {
	if metadata == "" {
		return "", errors.New("ECS_CONTAINER_METADATA_URI_V4 is not set; run this in a task of ECS")
	}

	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()

	request, err := http.NewRequestWithContext(ctx, http.MethodGet, metadata, nil)
	if err != nil {
		return "", fmt.Errorf("read the metadata of the task: %w", err)
	}
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		return "", fmt.Errorf("read the metadata of the task: %w", err)
	}
	defer func() { _ = response.Body.Close() }()
	var container struct {
		Networks []struct {
			IPv4Addresses []string
		}
	}

	if err := json.NewDecoder(io.LimitReader(response.Body, 1<<20)).Decode(&container); err != nil ||
		response.StatusCode != http.StatusOK {
		return "", fmt.Errorf("read the metadata of the task: %s: no container", response.Status)
	}

	for _, n := range container.Networks {
		if len(n.IPv4Addresses) > 0 {
			return n.IPv4Addresses[0], nil
		}
	}

	return "", errors.New("the metadata of the task has no IPv4 address; its network mode must be awsvpc")
}
