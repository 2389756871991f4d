package loadtest

import (
	"context"
	"errors"
	"time"

	"github.com/zeroae/zae-limiter-go"
)

// plentiful is a limit that no test exhausts.
const plentiful = 1_000_000_000

// simple returns the scenario "simple": requests with pauses that no limit
// refuses.
func simple() Scenario {
	return requests("simple", "Users with pauses take one request at a time, of a limit that none exhausts.",
		"SimpleUser", "SimpleCascadeUser", Wait{100 * time.Millisecond, time.Second})
}

// maxRPS returns the scenario "max_rps": requests back to back.
func maxRPS() Scenario {
	return requests("max_rps", "Users take one request after the other as fast as the store admits them.",
		"MaxRpsUser", "MaxRpsCascadeUser", Wait{})
}

// requests returns a scenario whose users take one request at a time, each from
// an entity of its own or, in the cascading class, also from a shared parent.
func requests(name, description, class, cascading string, wait Wait) Scenario {
	tasks := []Task{{Name: "acquire", Run: takeRequest}}
	return Scenario{
		Name: name, Description: description,
		Setup: func(ctx context.Context, test *Test) error {
			if err := test.SetSystemDefaults(ctx, limiter.PerMinute(limiter.RPM, plentiful)); err != nil {
				return err
			}
			return createShared(ctx, test.Client, limiter.Entity{ID: test.SharedID("org")})
		},
		Classes: []Class{
			{Name: class, Wait: wait, Tasks: tasks, Start: startAlone},
			{Name: cascading, Wait: wait, Tasks: tasks, Start: startCascading},
		},
	}
}

// startAlone names the entity of a user, which needs no record.
func startAlone(_ context.Context, u *User) error {
	u.Entity = u.ID("user")
	return nil
}

// startCascading creates the entity of a user below the parent of the test.
func startCascading(ctx context.Context, u *User) error {
	u.Entity = u.ID("user")
	return createShared(ctx, u.Client, limiter.Entity{ID: u.Entity, Parent: u.Test.SharedID("org"), Cascade: true})
}

// createShared creates an entity, unless another process or an earlier try did.
func createShared(ctx context.Context, c *Client, e limiter.Entity) error {
	start := c.begin()
	_, err := c.limiter.CreateEntity(ctx, e)
	// The user needs the entity but not its creation, so an entity that exists
	// is no failure.
	if errors.Is(err, limiter.ErrExists) {
		err = nil
	}

	c.end(CreateEntity, EntityName, start, err)
	return err
}

// takeRequest takes one request.
func takeRequest(ctx context.Context, u *User) error {
	return u.Do(ctx, limiter.Request{Entity: u.Entity, Resource: "api", Consume: limiter.Tokens(limiter.RPM, 1)},
		finish)
}

// finish stands for work that takes no time and uses what was acquired.
func finish(*Lease) error { return nil }
