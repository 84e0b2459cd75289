/* Catches: a module that is encoded with the wrong texts in view: which texts and placeholders
 * share an encode call in each mode, and which of them are stored (upstream study 1.2 and 1.3, with
 * its worked example). */
#include "serve/recipe.h"

#include <stdlib.h>
#include <string.h>

#include "serve/schema.h"
#include "toy_schema.h"

/* "name[sees]: item item* …" for every unit; * marks what is stored. An item is the first word of a
 * text, or <param>. */
static void describe(const pc__recipe *r, char *out)
{
    *out = 0;
    for (size_t u = 0; u < r->unit_count; u++) {
        const pc__unit *unit = &r->units[u];
        sprintf(out + strlen(out), "%s%s:", unit->name, unit->sees_lead ? "+lead" : "");
        for (size_t i = 0; i < unit->count; i++) {
            const pc__node *item = unit->items[i];
            char word[32] = {0};
            if (item->kind == PC__NODE_TEXT)
                sscanf(item->text, "%31[^ ]", word);
            else
                snprintf(word, sizeof word, "<%s>", item->name);
            sprintf(out + strlen(out), " %s%s", word[0] ? word : "_",
                    unit->leaf[i] != PC__NO_LEAF ? "*" : "");
        }
        strcat(out, u + 1 < r->unit_count ? "; " : "");
    }
}

static void check(const char *schema, uint32_t encoding, const char *want)
{
    toy_world w;
    const pc__recipe *recipe = NULL;
    char got[4096];
    if (!CHECK(toy_start(&w, NULL, 0, 0, schema)))
        return;
    if (CHECK_OK(pc__schema_recipe(w.schema, encoding, &recipe))) {
        const pc__schema_tree *tree = w.schema->tree;
        describe(recipe, got);
        CHECK_STR(got, want);
        for (size_t n = 0; n < tree->node_count;
             n++) { /* every stored text has a single leaf of its own */
            const pc__node *node = tree->nodes[n];
            size_t leaf = recipe->node_leaf[n];
            int kept = node->kind == PC__NODE_TEXT && !node->uncached && node->token_count;
            CHECK_INT(leaf != PC__NO_LEAF, kept);
            CHECK(leaf == PC__NO_LEAF || pc__leaf_node(recipe, leaf) == node);
        }
    }
    toy_end(&w);
}

static const char worked[] =
    "<schema name=\"t\">sys one two"
    "<module name=\"plan\">go for<parameter name=\"dur\" length=\"5\"/>days"
    "<union scaffold=\"b\"><module name=\"a\">A1 A2<parameter name=\"city\" length=\"3\"/></module>"
    "<module name=\"b\">B1 B2 B3<union><module name=\"c\">C1</module><module name=\"d\">D1 "
    "D2</module></union></module></union>"
    "tail words here</module>"
    "<module name=\"x\">x1 x2</module>end</schema>";

static const char sets[] =
    "<schema name=\"t\">open"
    "<module name=\"a\">a1<module name=\"in\">i1</module>a2</module>mid"
    "<union scaffold=\"u\"><module name=\"u\">u1</module><module name=\"v\">v1</module></union>"
    "<module name=\"n\" cache=\"false\">n1<module name=\"m\">m1</module></module>"
    "<scaffold modules=\"a v\"/></schema>";

/* What doc/pml.md says of nested modules, further texts of the root and modules that are not
 * cached; sets that hold such. */
static const char seen[] =
    "<schema name=\"t\">open<module name=\"a\">a1<module name=\"in\">i1</module>a2</module>mid"
    "<module name=\"n\" cache=\"false\">n1<module name=\"m\">m1</module></module>end<module "
    "name=\"z\">z1</module>"
    "<scaffold modules=\"n z\"/><scaffold modules=\"a a/in\"/></schema>";

int main(void)
{
    check(worked, PC_ENCODE_INDEPENDENT,
          ": sys*; : end*; plan: go* <dur> days* tail*; plan/a: A1* <city>; plan/b: B1*; plan/b/c: "
          "C1*; plan/b/d: D1*; x: x1*");
    check(worked, PC_ENCODE_SINK,
          ": sys*; +lead: end*; plan+lead: go* <dur> days* tail*; plan/a+lead: A1* <city>; "
          "plan/b+lead: B1*; plan/b/c+lead: C1*; "
          "plan/b/d+lead: D1*; x+lead: x1*");
    /* the default layout contains b, whose inner union has no default: four passes in all */
    check(worked, PC_ENCODE_JOINT,
          ": sys* go* <dur> days* B1* tail* x1* end*; plan/a: sys go <dur> days A1* <city> tail x1 "
          "end; "
          "plan/b/c: sys go <dur> days B1 C1* tail x1 end; plan/b/d: sys go <dur> days B1 D1* tail "
          "x1 end");
    check(sets, PC_ENCODE_INDEPENDENT,
          ": open*; : mid*; a: a1* a2*; a/in: i1*; u: u1*; v: v1*; a: a1* a2* v1*");
    check(sets, PC_ENCODE_SINK,
          ": open*; +lead: mid*; a+lead: a1* a2*; a/in+lead: i1*; u+lead: u1*; v+lead: v1*; "
          "a+lead: a1* a2* v1*");
    check(sets, PC_ENCODE_JOINT,
          ": open* a1* i1* a2* mid* u1* n1 m1; v: open a1 i1 a2 mid v1* n1 m1; a: open a1* i1 a2* "
          "mid v1* n1 m1");
    check(seen, PC_ENCODE_INDEPENDENT,
          ": open*; : mid*; : end*; a: a1* a2*; a/in: i1*; z: z1*; n: n1 z1*; a: a1* i1* a2*");
    check(seen, PC_ENCODE_SINK,
          ": open*; +lead: mid*; +lead: end*; a+lead: a1* a2*; a/in+lead: i1*; z+lead: z1*; "
          "n+lead: n1 z1*; a+lead: a1* i1* a2*");
    check(seen, PC_ENCODE_JOINT,
          ": open* a1* i1* a2* mid* n1 m1 end* z1*; n: open a1 i1 a2 mid n1 m1 end z1*; a: open "
          "a1* i1* a2* mid n1 m1 end z1");
    check("<schema name=\"t\"><module name=\"a\">a1</module>late</schema>", PC_ENCODE_SINK,
          ": late*; a: a1*"); /* no lead */
    check("<schema name=\"t\"><module name=\"a\" cache=\"false\">a1</module></schema>",
          PC_ENCODE_JOINT, "");
    return pc_test_end();
}
