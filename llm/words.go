package llm

import "strings"

// commonWords holds words that are one token each, with a space before them and
// without one, also with an initial capital, in the vocabularies o200k_base and
// cl100k_base. Others cost more
// than half a token a byte at worst, so these are what keeps the bound of ordinary
// text below that.
var commonWords = wordsOf(`
about above add after again air all almost along also always an and another answer any are around array as
at away back based be because been before being below best better between big body book boolean both boy
business but by call called can case change check city class clear code come company content context cost
could count create customer data date day default description details did different do document does down
during each email end enum error even every example fact false few file find first food for form format
found four free from full function get give given go good got great group had hand has have head hello help
her here hi high his home house how human if important in including information input integer into is it
items its just keep key kind know land language large last left letter level life like limit line list
little live local location long look made make man many market may me men message model money month more
most much must my name need never new next night no not note now null number object of off often old on
once one only or order other our out output over own page parameters part per place plan please point power
price problem process product program project properties provide public put query question rate read report
request required response result results return returns right role same say school search section see
service set she short should show side simple since small so some something sometimes sound specific start
state step still story string such sum support sure system table take team tell test text than that the
their them then there these they things think this those thought three through time title to today too tool
tools total translate true two type under up update us use used user using value values very want was water
way we week well were what when where which while who why will with within without word words work world
would write year years yes your
`)

// longestCommon is the length of the longest of commonWords.
const longestCommon = 11

// rarePairs holds the pairs of letters that are no token in one of the
// vocabularies, by their first letter: bit 1 stands for "b".
var rarePairs = pairsOf("bq fj fz gj gk gq hj jg jv jw jx jy jz kq kx kz lq mz nq oq qf qg qj qk qo qv qy qz " +
	"rj tj tq uq vq vz wq wv wz xg xh xj xk xq xu xv xw yf yj yq yv zg zj zq zr zv")

func wordsOf(list string) map[string]bool {
	words := make(map[string]bool)
	for word := range strings.FieldsSeq(list) {
		words[word] = true
	}
	return words
}

func pairsOf(list string) (pairs [26]uint32) {
	for pair := range strings.FieldsSeq(list) {
		pairs[pair[0]-'a'] |= 1 << (pair[1] - 'a')
	}
	return pairs
}
