package cutproxy

// Answers returns a hook for protocols in which the client asks and the server
// answers. On each request it asks for a verdict:
//
//   - Drop: the request is forwarded, its whole answer vanishes, and then the
//     connection is cut. So what was asked for is surely done, and the client
//     does not know.
//   - Cut: the request does not arrive.
//   - CutBehind: the request arrives, and the client knows at once that it will
//     hear no answer, perhaps before the server has begun.
//   - Pass, Hang: as they say.
//
// complete tells by the last bytes of an answer, 64 at most, whether it is over.
func Answers(onRequest func(request []byte) Verdict, complete func(tail []byte) bool) Hook {
	const keep = 64
	var asked, lost bool
	var tail []byte
	return func(from Side, data []byte) Verdict {
		if from == Client {
			if asked {
				return Pass // more of the same request
			}
			asked, tail = true, nil
			v := onRequest(data)
			if v == Drop {
				lost, v = true, Pass
			}
			return v
		}
		tail = append(tail, data[max(0, len(data)-keep):]...)
		tail = tail[max(0, len(tail)-keep):]
		done := complete(tail)
		asked = asked && !done
		switch {
		case !lost:
			return Pass
		case done:
			return Cut
		}
		return Drop
	}
}
