package cutproxy

// Answers returns a hook for protocols in which the client asks and the server answers. It asks for
// a verdict on each request:
//
//   - Drop: the request is forwarded, its whole answer vanishes, and then the connection is cut.
//     The request was certainly executed, and the client does not know.
//   - Cut: the request does not arrive.
//   - CutBehind: the request arrives, and the client learns at once, perhaps before the server has
//     begun, that it will get no answer.
//   - Pass, Hang: as they say.
//
// complete reports, from the last bytes of an answer (at most 64), whether the answer is complete.
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
