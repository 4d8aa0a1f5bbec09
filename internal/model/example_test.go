package model_test

import (
	"fmt"

	"github.com/ashlardb/ashlar/internal/model"
)

func Example() {
	db := model.New()
	users := db.Create("users", false)
	db.Apply([]model.Write{{Family: users, Key: "ada", Value: "1815"}, {Family: users, Key: "bob", Value: "1990"}})
	snapshot := db.Seq()
	db.Apply([]model.Write{{Family: users, Kind: model.Delete, Key: "ada"}})
	fmt.Println(users.Entries(snapshot, nil, nil))
	fmt.Println(users.Entries(db.Seq(), nil, nil))
	// Output:
	// [{ada 1815} {bob 1990}]
	// [{bob 1990}]
}
