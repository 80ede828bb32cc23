package flaw

var mediaRows = []Row{}
