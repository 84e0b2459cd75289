/* The matrices and norms that a decoder consists of, whatever a file calls them. */
#ifndef PC_MODEL_TENSOR_ROLE_H
#define PC_MODEL_TENSOR_ROLE_H

typedef enum pc__part {
    PC__PART_EMBEDDING,
    PC__PART_POSITIONS,
    PC__PART_PROJECT_IN,
    PC__PART_PROJECT_OUT,
    PC__PART_EMBEDDING_NORM,
    PC__PART_FINAL_NORM,
    PC__PART_HEAD,
    PC__PART_NORM1,
    PC__PART_NORM2,
    PC__PART_Q,
    PC__PART_K,
    PC__PART_V,
    PC__PART_O,
    PC__PART_GATE,
    PC__PART_UP,
    PC__PART_DOWN,
    /* Layers with experts: GATE, UP and DOWN are those of the shared MLP there. All experts'
       matrices of a kind count as one, one below the other. */
    PC__PART_ROUTER,
    PC__PART_EXPERT_GATE,
    PC__PART_EXPERT_UP,
    PC__PART_EXPERT_DOWN,
    PC__PART_SHARED_SCALE,
    PC__PART_POSITION_K,
    PC__PART_POSITION_Q,
    /* Encoders, outside the layers. */
    PC__PART_TYPES,
    PC__PART_RELATIVE,
    PC__PART_RELATIVE_NORM,
    PC__PART_CONV,
    PC__PART_CONV_NORM,
    PC__PART_POOL,
    PC__PART_CLASSIFIER
} pc__part;
enum { PC__PARTS = PC__PART_CLASSIFIER + 1 };
#define PC__PART_IN_LAYER(part) ((part) >= PC__PART_NORM1 && (part) < PC__PART_TYPES)

const char *pc__part_name(pc__part part); /* "attention query", for error texts */

#endif
