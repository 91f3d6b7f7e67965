package dashboard

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"encoding/base64"
	"encoding/json"
	"errors"
	"net/http"
	"net/url"
	"time"

	"github.com/holdfast-go/holdfast/inspect"
)

const (
	sightTime  = 5 * time.Minute // how long a form can be used
	cookieName = "holdfast-dashboard"
	maxForm    = 1 << 20 // bytes
)

// A sight is what the user has seen of a lock: a form carries it, signed, so that the
// lock is broken only if exactly these owners still hold it.
type sight struct {
	Name    []byte    `json:"name"` // not a string, which would change invalid UTF-8
	Kind    string    `json:"kind"`
	Holders []owner   `json:"holders"`
	Expires time.Time `json:"expires"`
}

type owner struct {
	Owner []byte `json:"owner"`
	Mode  string `json:"mode"`
}

func newSight(l inspect.Lock, now time.Time) sight {
	s := sight{Name: []byte(l.Name), Kind: string(l.Kind), Expires: now.Add(sightTime)}
	for _, h := range l.Holders {
		s.Holders = append(s.Holders, owner{[]byte(h.Owner), string(h.Mode)})
	}
	return s
}

func (s sight) lock() inspect.Lock {
	l := inspect.Lock{Name: string(s.Name), Kind: inspect.Kind(s.Kind)}
	for _, h := range s.Holders {
		l.Holders = append(l.Holders, inspect.Holder{Owner: string(h.Owner), Mode: inspect.Mode(h.Mode)})
	}
	return l
}

var errForm = errors.New("the form is not valid any more: go back to the lock and try again")

// sign returns the sight as text for a form. The form works only in the browser with
// this session.
func (d *Dashboard) sign(s sight, session string) string {
	data, _ := json.Marshal(s) // texts only
	return base64.RawURLEncoding.EncodeToString(append(d.mac(data, session), data...))
}

// verify returns the sight that sign has encoded.
func (d *Dashboard) verify(text, session string) (sight, error) {
	var s sight
	data, err := base64.RawURLEncoding.DecodeString(text)
	if err != nil || len(data) < sha256.Size || session == "" {
		return s, errForm
	}
	sum, data := data[:sha256.Size], data[sha256.Size:]
	if !hmac.Equal(sum, d.mac(data, session)) {
		return s, errForm
	}
	if err := json.Unmarshal(data, &s); err != nil || time.Now().After(s.Expires) {
		return s, errForm
	}
	return s, nil
}

func (d *Dashboard) mac(data []byte, session string) []byte {
	h := hmac.New(sha256.New, d.key)
	_, _ = h.Write([]byte(session + "\x00")) // never fails
	_, _ = h.Write(data)
	return h.Sum(nil)
}

// session returns the random id of the browser. It sets the cookie if there is none.
// The cookie belongs to the path of the dashboard, and other sites do not cause it to be
// sent.
func session(w http.ResponseWriter, r *http.Request) string {
	if c, err := r.Cookie(cookieName); err == nil && len(c.Value) >= 26 {
		return c.Value
	}
	id := rand.Text()
	http.SetCookie(w, &http.Cookie{Name: cookieName, Value: id, HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil})
	return id
}

// A breakForm is what the template needs.
type breakForm struct {
	Name    string
	Back    string // the page of the lock
	Seen    string // the signed sight; "": there is nothing to break
	Message string
	Class   string
	Done    bool
}

// serveBreak asks whether to break a lock, with GET, and breaks it, with POST.
func (d *Dashboard) serveBreak(w http.ResponseWriter, r *http.Request) {
	switch {
	case !d.options.AllowBreak:
		d.breakPage(w, breakForm{Back: "./", Class: "bad", Message: "This dashboard cannot break locks. Its operator has to allow it."}, nil, http.StatusForbidden)
	case r.Method == http.MethodPost:
		d.breakLock(w, r)
	default:
		d.askBreak(w, r)
	}
}

// askBreak is the page that names the holders and asks.
func (d *Dashboard) askBreak(w http.ResponseWriter, r *http.Request) {
	name := r.URL.Query().Get("name")
	f := breakForm{Name: visible(name, longName), Back: lockLink(name)}
	lock, err := d.scanner.inspect.Lock(r.Context(), name)
	status := 0
	switch {
	case errors.Is(err, inspect.ErrNotLock) || name == "":
		f.Message, f.Class, status = "This key is not a lock.", "bad", http.StatusNotFound
	case err != nil:
		f.Message, f.Class, status = "The lock could not be read: "+errorText(err), "bad", http.StatusBadGateway
	case len(lock.Holders) == 0:
		f.Message = "There is nothing to break: the lock is free."
	case newState(lock, time.Now()).moreHolders() > 0 && lock.Kind != inspect.Semaphore:
		f.Message, f.Class = "The lock has more holders than can be shown, so it cannot be broken here.", "bad"
	default:
		f.Seen = d.sign(newSight(lock, time.Now()), session(w, r))
	}
	var tables []table
	if f.Seen != "" {
		tables = []table{holderTable(newState(lock, time.Now()))}
	}
	d.breakPage(w, f, tables, status)
}

// breakLock breaks a lock if the holders that the form carries still hold it.
func (d *Dashboard) breakLock(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxForm)
	id := ""
	if c, err := r.Cookie(cookieName); err == nil {
		id = c.Value
	}
	seen, err := d.verify(r.PostFormValue("seen"), id)
	if err != nil {
		d.breakPage(w, breakForm{Back: "./", Class: "bad", Message: "Nothing was changed: " + err.Error() + "."}, nil, http.StatusForbidden)
		return
	}
	lock := seen.lock()
	ctx, cancel := context.WithTimeout(context.WithoutCancel(r.Context()), askTime) // the user may leave the page
	defer cancel()
	broken, err := d.scanner.inspect.Break(ctx, lock)
	d.options.Audit(Action{Lock: lock, Broken: broken, Err: err, Request: r})
	f := breakForm{Name: visible(lock.Name, longName), Back: "lock?name=" + url.QueryEscape(lock.Name), Done: true}
	status := 0
	switch {
	case err != nil:
		f.Class, f.Message, status = "bad", "The lock was perhaps not broken: "+errorText(err), http.StatusBadGateway
	case !broken:
		f.Class, f.Message, status = "warn", "Nothing was changed: the holders are not those that you have seen. Look at the lock again.", http.StatusConflict
	default:
		f.Class, f.Message = "good", "The lock is broken. Its holder learns of that at its next renewal, and may work until then."
	}
	d.breakPage(w, f, nil, status)
}

func (d *Dashboard) breakPage(w http.ResponseWriter, f breakForm, tables []table, status int) {
	d.render(w, "break.html", "lock", "", content{Title: "Break a lock", Form: f, Tables: tables, Status: status, Read: time.Now(), Limit: sightTime, Facts: []cell{badgeFact(d.scanner.last())}})
}
