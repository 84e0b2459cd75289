/* A schema with all that PML has, and a prompt that uses it, for the demo model. */
#ifndef PC_GUIDE_SCHEMA_H
#define PC_GUIDE_SCHEMA_H

static const char guide_schema[] =
    "<schema name=\"s\">You are a helpful guide. "
    "<module name=\"a\">Alice lives in Paris and has a red <parameter name=\"x\" length=\"4\"/> in "
    "the garden.</module> "
    "<module name=\"b\">Bob lives in Rome, where it is warm most of the year and the food is "
    "good.</module>"
    "<union><module name=\"u\">They met in spring.</module><module name=\"v\">They have never met "
    "each other.</module></union>"
    "<module name=\"c\">Carol has three cats and a small blue boat on the lake.</module></schema>";
static const char guide_prompt[] =
    "<prompt schema=\"s\"><a x=\"tree\"/><b/><v/><c/>Who has a boat?</prompt>";

#endif
