/* The matrices and norms that a decoder consists of, whatever a file calls them. */
#ifndef PC_MODEL_PART_H
#define PC_MODEL_PART_H

typedef enum pc__part {
    PC__PART_EMBEDDING, PC__PART_POSITIONS, PC__PART_PROJECT_IN, PC__PART_PROJECT_OUT, PC__PART_EMBEDDING_NORM,
    PC__PART_FINAL_NORM, PC__PART_HEAD,
    PC__PART_NORM1, PC__PART_NORM2, PC__PART_Q, PC__PART_K, PC__PART_V, PC__PART_O, PC__PART_GATE, PC__PART_UP, PC__PART_DOWN
} pc__part;
enum { PC__PARTS = PC__PART_DOWN + 1, PC__PART_FIRST_OF_LAYER = PC__PART_NORM1 };

const char *pc__part_name(pc__part part); /* "attention query", for error texts */

#endif
