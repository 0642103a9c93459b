// Package kentv1 has the messages and stubs of Kent's protocol, generated from its .proto files. Use a stub with the connection of
// a client, which adds the token: kentv1.NewRegionsClient(client.Conn()).
package kentv1
