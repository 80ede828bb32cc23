package flaw

var netbootRows = []Row{}
