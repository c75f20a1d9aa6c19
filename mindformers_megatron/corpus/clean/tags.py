"""The tags of HTML, by what they do to text."""


def _names(text: str) -> frozenset[str]:
    return frozenset(text.split())


VOID = _names("br hr img wbr input link meta area base col embed source track")

# The text of each is a paragraph, or several.
PARAGRAPH = _names(
    """
    article aside blockquote center dl fieldset figure footer form h1 h2 h3 h4 h5 h6 header hr main menu nav ol p
    section table ul
    """
)
# The text of each begins a line.
LINE = _names("address br caption dd details dialog div dt figcaption legend li optgroup option summary tr")
CELL = _names("td th")
# White space counts in these.
PREFORMATTED = _names("pre listing")

# What is between these and their ends is no text.
SILENT = _names("script style template noscript svg textarea")

# Nor is what is between these, which are shown elsewhere or in place of something else.
UNSEEN = _names("title iframe noembed noframes")

_FRAME = _names("html head body title frameset tbody thead tfoot colgroup hgroup search")
_INLINE = _names(
    """
    a abbr acronym audio b bdi bdo big button canvas cite code data datalist del dfn em font i iframe ins kbd label map
    mark meter nobr object output picture progress q rp rt ruby s samp select small span strike strong sub sup time tt u
    var video
    """
)

KNOWN = VOID | PARAGRAPH | LINE | CELL | PREFORMATTED | SILENT | _FRAME | _INLINE
