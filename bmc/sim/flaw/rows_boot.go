package flaw

var bootRows = []Row{}
