/* Kernels are compiled once per number of rows of a block. ROWS_n(rows, CALL) is a switch with
 * CALL(1) to CALL(n) (ROWS_8_TO_12: CALL(8) to CALL(12)), where the last one serves all others. */
#ifndef PC_ATTN_CPU_ROWS_SWITCH_H
#define PC_ATTN_CPU_ROWS_SWITCH_H

#define ROWS_CASE(n, CALL) \
    case n:                \
        CALL(n);           \
        break;
#define ROWS_CASES_1_TO_3(CALL) ROWS_CASE(1, CALL) ROWS_CASE(2, CALL) ROWS_CASE(3, CALL)
#define ROWS_CASES_1_TO_5(CALL) ROWS_CASES_1_TO_3(CALL) ROWS_CASE(4, CALL) ROWS_CASE(5, CALL)
#define ROWS_CASES_8_TO_11(CALL) \
    ROWS_CASE(8, CALL) ROWS_CASE(9, CALL) ROWS_CASE(10, CALL) ROWS_CASE(11, CALL)
#define ROWS_SWITCH(rows, cases, last, CALL) \
    switch (rows) {                          \
        cases(CALL) default : CALL(last);    \
        break;                               \
    }

#define ROWS_4(rows, CALL) ROWS_SWITCH(rows, ROWS_CASES_1_TO_3, 4, CALL)
#define ROWS_6(rows, CALL) ROWS_SWITCH(rows, ROWS_CASES_1_TO_5, 6, CALL)
#define ROWS_8_TO_12(rows, CALL) ROWS_SWITCH(rows, ROWS_CASES_8_TO_11, 12, CALL)
#define ROWS_CASES_1_TO_11(CALL) \
    ROWS_CASES_1_TO_5(CALL) ROWS_CASE(6, CALL) ROWS_CASE(7, CALL) ROWS_CASES_8_TO_11(CALL)
#define ROWS_12(rows, CALL) ROWS_SWITCH(rows, ROWS_CASES_1_TO_11, 12, CALL)

#endif
