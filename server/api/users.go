package api

import (
	"errors"
	"net/http"
	"time"

	"bessemer/server/auth"
	"bessemer/store"
)

// A userView is a user without its password's hash.
type userView struct {
	Name      string    `json:"name"`
	Role      string    `json:"role"`
	CreatedAt time.Time `json:"created_at"`
}

func viewUser(u *store.User) userView { return userView{u.Name, u.Role, u.CreatedAt} }

// login gives a token for a user and its password, from the body or from
// Basic authentication.
func login(c *call) error {
	if c.api.Auth.Mode() == auth.None {
		return invalid("Nobody authenticates here, so there are no tokens")
	}
	var body struct {
		User     string `json:"user"`
		Password string `json:"password"`
	}
	if err := c.decode(&body); err != nil {
		return err
	}
	if user, password, ok := c.r.BasicAuth(); ok && body.User == "" {
		body.User, body.Password = user, password
	}
	token, expires, err := c.api.Auth.Login(auth.Source(c.r), body.User, body.Password)
	if err != nil {
		return err
	}
	id, err := c.api.Auth.Token(token)
	if err != nil {
		return err
	}
	c.json(http.StatusCreated, map[string]any{"token": token, "expires": expires, "user": id.User, "role": id.Role})
	return nil
}

// logout makes the token that the request is authenticated with worthless.
func logout(c *call) error {
	if c.id.Token == "" {
		return invalid("The request is not authenticated with a token; send it as X-Auth-Token")
	}
	if err := c.api.Auth.Logout(c.id.Token); err != nil {
		return err
	}
	return c.empty(http.StatusNoContent)
}

func listUsers(c *call) error {
	us, err := c.api.Auth.Users()
	if err != nil {
		return err
	}
	out := []userView{}
	for _, u := range us {
		out = append(out, viewUser(u))
	}
	c.json(http.StatusOK, map[string]any{"users": out})
	return nil
}

func showUser(c *call) error { return c.answerUser(http.StatusOK, c.path("user")) }

func (c *call) answerUser(status int, name string) error {
	u, err := c.api.Auth.User(name)
	if err != nil {
		return noUser(name, err)
	}
	c.json(status, viewUser(u))
	return nil
}

func noUser(name string, err error) error {
	if errors.Is(err, store.ErrNotFound) {
		return refuse(http.StatusNotFound, "There is no user %s", printable(name))
	}
	return err
}

type userBody struct {
	Name     string `json:"name"`
	Password string `json:"password"`
	Role     string `json:"role"`
}

func createUser(c *call) error {
	var body userBody
	if err := c.decode(&body); err != nil {
		return err
	}
	err := c.api.Auth.AddUser(body.Name, body.Password, body.Role)
	if errors.Is(err, store.ErrConflict) {
		return refuse(http.StatusConflict, "There is a user %s already", printable(body.Name))
	}
	if err != nil {
		return err
	}
	return c.answerUser(http.StatusCreated, body.Name)
}

func changeUser(c *call) error {
	var body userBody
	if err := c.decode(&body); err != nil {
		return err
	}
	name := c.path("user")
	if body.Name != "" && body.Name != name {
		return invalid("A user cannot be renamed")
	}
	if err := c.api.Auth.ChangeUser(name, body.Password, body.Role); err != nil {
		return noUser(name, err)
	}
	return c.answerUser(http.StatusOK, name)
}

func deleteUser(c *call) error {
	name := c.path("user")
	if err := c.api.Auth.RemoveUser(name); err != nil {
		return noUser(name, err)
	}
	return c.empty(http.StatusNoContent)
}
