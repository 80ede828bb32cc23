package flaw

var ipmiRows = []Row{}
