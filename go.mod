module github.com/pawlhq/pawl

go 1.26
