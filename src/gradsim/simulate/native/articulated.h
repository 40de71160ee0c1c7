// Forward dynamics of trees of joints by the articulated-body algorithm (Featherstone, Rigid Body Dynamics Algorithms),
// and its adjoint. Vectors have world axes and refer to the origin of their own link, so that only translations lie
// between links and precision does not depend on the distance to the world's origin.
//
// A joint turns or slides along the z axis of its frame, or is a ball whose velocity has the axes of its link. With
// inertias M and inverse dynamics b(q, v, a) = M a + ..., accelerations solve b = torque. The adjoint l of a gives
// m = M^-1 l by the same factors, and the adjoints of everything else are the derivatives of m . (torque - b), which is
// the power of all forces in a virtual motion m: a recursion from the roots, whose adjoint goes back to them.
#pragma once
#include "trigonometry.h"

namespace gradsim {

template <class S> LANES_INLINE Vector<S> transposed_product(const Matrix<S>& a, const Vector<S>& b) {
    return {dot(a.x, b), dot(a.y, b), dot(a.z, b)};
}
// The matrix of v -> a x v.
template <class S> LANES_INLINE Matrix<S> cross_matrix(const Vector<S>& a) {
    const S zero = S{};
    return {{zero, a.z, -a.y}, {-a.z, zero, a.x}, {a.y, -a.x, zero}};
}
template <class S> LANES_INLINE Matrix<S> full(const Symmetric<S>& a) {
    const S* c = a.c;
    return {{c[0], c[5], c[4]}, {c[5], c[1], c[3]}, {c[4], c[3], c[2]}};
}
template <class S> LANES_INLINE Symmetric<S> symmetric_part(const Matrix<S>& a) {
    return {{a.x.x, a.y.y, a.z.z, (a.y.z + a.z.y) / 2, (a.z.x + a.x.z) / 2, (a.x.y + a.y.x) / 2}};
}
// R a R'.
template <class S> LANES_INLINE Symmetric<S> rotated(const Matrix<S>& R, const Symmetric<S>& a) {
    return symmetric_part(R * full(a) * transpose(R));
}
// a - d u u'.
template <class S> LANES_INLINE void subtract_square(Symmetric<S>& a, const Vector<S>& u, S d) {
    const Vector<S> w = u * d;
    a.c[0] -= w.x * u.x, a.c[1] -= w.y * u.y, a.c[2] -= w.z * u.z;
    a.c[3] -= w.y * u.z, a.c[4] -= w.z * u.x, a.c[5] -= w.x * u.y;
}

// --- parameters, states, results of a joint ----------------------------------------------------------------------------

// In the order of the rows of the parameter table.
template <class S> struct JointParameters {
    Vector<S> offset;         // of the joint's frame, in the parent's axes
    Quaternion<S> frame;      // rotation of that frame
    S mass;                   // of the link
    Vector<S> moment;         // mass times centre of mass, in the link's axes
    Symmetric<S> inertia;     // about the link's origin, in its axes
    Vector<S> gravity;
    S stiffness, rest, damping, armature, friction, slip;
    S low, high, limit_stiffness, limit_damping, limit_width;
    S force, target, gain, target_rate, rate_gain;
    S quaternion;             // whether the coordinates are a quaternion; only portable kernels read it
};

// The coordinate of a joint is q.a.x and its rate v.x; a ball has a unit quaternion and the angular velocity.
template <class S> struct JointState {
    Quaternion<S> q;
    Vector<S> v;
};
static_assert(sizeof(JointState<double>) == 7 * sizeof(double), "scalars of a joint's state");

// Of one joint and its link, at one state.
template <class S> struct JointDynamics {
    Matrix<S> R;              // axes of the link
    Vector<S> r;              // from the parent's origin to the link's
    Vector<S> w, turn, shift; // angular velocity; accelerations that follow from velocities
    Vector<S> h;              // first moment of mass
    Symmetric<S> Io;          // inertia about the link's origin
    Symmetric<S> A, M;        // articulated inertia: torque = A turning + H sliding, force = H' turning + M sliding
    Matrix<S> H;
    Vector<S> n, f;           // articulated bias torque and force
    Vector<S> Uw, Uv;         // articulated inertia times the joint's axis
    S d;                      // inverse of the joint's own inertia
    Symmetric<S> D;           // the same for a ball
    Vector<S> u;              // force of the joint that is left to accelerate it
    Vector<S> alpha, a;       // acceleration of the link and of its origin
    Vector<S> acceleration;   // of the coordinates
};

// Virtual motion, and adjoints that are summed over the links that a link carries.
template <class S> struct JointAdjoint {
    Vector<S> n, f, u, nu_w, nu_v, mu;
    Vector<S> nu_w_adj, nu_v_adj, w_adj, alpha_adj, a_adj, turn_adj;
};

// Force on a link at its origin, and torque.
template <class S> struct Wrench {
    Vector<S> force, torque;
};

template <class S> struct Tree {
    int count;
    const int *kinds, *parents;
    const JointParameters<S>* parameters;
    const Wrench<S>* wrenches;  // on every link in contact; null if none is
};

// --- forces of a joint -------------------------------------------------------------------------------------------------

// Elastic force of a limit at a depth beyond it over its stiffness, and its derivative: a quadratic start, then a line.
template <class S> LANES_INLINE S ramp(S depth, S width) {
    const S e = larger(depth, S{}), t = smaller(e, width);
    return t * t / (2 * width) + (e - t);
}
template <class S> LANES_INLINE S ramp_slope(S depth, S width) { return saturate(depth / width); }
template <class S> LANES_INLINE S smoothstep(S t) { return t * t * (3 - 2 * t); }

template <class S> LANES_INLINE S joint_force(const JointParameters<S>& p, S q, S v) {
    const S below = p.low - q, above = q - p.high, width = p.limit_width;
    const S elastic = p.limit_stiffness * (ramp(below, width) - ramp(above, width));
    const S engaged = smoothstep(ramp_slope(below, width)) + smoothstep(ramp_slope(above, width));
    const S dry = v * inverse_root(v * v + p.slip * p.slip);
    return p.force + p.gain * (p.target - q) + p.rate_gain * (p.target_rate - v) - p.stiffness * (q - p.rest) -
           p.damping * v - p.friction * dry + elastic - p.limit_damping * engaged * v;
}
// Adds the adjoints that follow from the adjoint b of the force.
template <class S>
LANES_INLINE void joint_force_adjoint(const JointParameters<S>& p, S q, S v, S b, JointParameters<S>& g, S& q_adj, S& v_adj) {
    g.force += b;
    g.gain += b * (p.target - q), g.target += b * p.gain;
    g.rate_gain += b * (p.target_rate - v), g.target_rate += b * p.rate_gain;
    g.stiffness -= b * (q - p.rest), g.rest += b * p.stiffness;
    g.damping -= b * v;
    const S root = inverse_root(v * v + p.slip * p.slip), cube = p.friction * b * root * root * root;
    g.friction -= b * v * root;
    g.slip += cube * v * p.slip;
    const S width = p.limit_width, below = p.low - q, above = q - p.high;
    const S s = ramp_slope(below, width), t = ramp_slope(above, width);
    const S engaged = smoothstep(s) + smoothstep(t), elastic = ramp(below, width) - ramp(above, width);
    const S k = b * p.limit_stiffness, c = b * p.limit_damping * v;
    g.limit_stiffness += b * elastic;
    g.limit_damping -= b * engaged * v;
    // derivatives by the depths
    const S by_below = k * s - c * 6 * s * (1 - s) / width, by_above = -k * t - c * 6 * t * (1 - t) / width;
    g.low += by_below, g.high -= by_above;
    const S by_width = k * (t * t - s * s) / 2 + c * (6 * s * s * (1 - s) + 6 * t * t * (1 - t)) / width;
    g.limit_width += by_width;
    q_adj += by_above - by_below - b * (p.gain + p.stiffness);
    v_adj -= b * (p.rate_gain + p.damping + p.limit_damping * engaged) + cube * p.slip * p.slip;
}

// Of a ball: a spring with the energy 2 k (1 - w^2) of the quaternion's real part, and damping.
template <class S> LANES_INLINE Vector<S> ball_torque(const JointParameters<S>& p, const JointState<S>& s) {
    const S dry = inverse_root(dot(s.v, s.v) + p.slip * p.slip);
    return s.q.a * (-2 * p.stiffness * s.q.w) - s.v * (p.damping + p.friction * dry);
}
template <class S>
LANES_INLINE void ball_torque_adjoint(
    const JointParameters<S>& p, const JointState<S>& s, const Vector<S>& b, JointParameters<S>& g, JointState<S>& adj) {
    const S along = dot(s.q.a, b), slow = dot(s.v, b);
    g.stiffness -= 2 * s.q.w * along;
    adj.q.a += b * (-2 * p.stiffness * s.q.w);
    adj.q.w -= 2 * p.stiffness * along;
    const S root = inverse_root(dot(s.v, s.v) + p.slip * p.slip), cube = p.friction * slow * root * root * root;
    g.damping -= slow, g.friction -= slow * root, g.slip += cube * p.slip;
    adj.v += s.v * cube - b * (p.damping + p.friction * root);
}

// --- forward dynamics --------------------------------------------------------------------------------------------------

// Pose, velocity, own inertia and bias force of a link.
template <class T, class S>
LANES_INLINE void link_kinematics(const Tree<S>& tree, int i, const JointState<S>* states, JointDynamics<S>* all) {
    const JointParameters<S>& p = tree.parameters[i];
    const JointState<S>& s = states[i];
    JointDynamics<S>& k = all[i];
    const int parent = tree.parents[i], kind = tree.kinds[i];
    Matrix<S> F = rotation_matrix(p.frame);
    Vector<S> w = {}, r = p.offset;
    if (parent >= 0) F = all[parent].R * F, r = all[parent].R * r, w = all[parent].w;
    k.R = F, k.r = r, k.w = w, k.turn = {}, k.shift = {};
    if (kind == joint_kind::revolute) {
        S sine, cosine;
        sine_cosine<T>(s.q.a.x, sine, cosine);
        k.R = {F.x * cosine + F.y * sine, F.y * cosine - F.x * sine, F.z};
        k.turn = cross(w, F.z) * s.v.x;
        k.w = w + F.z * s.v.x;
    } else if (kind == joint_kind::ball) {
        k.R = F * rotation_matrix(s.q);
        const Vector<S> spin = k.R * s.v;
        k.turn = cross(w, spin);
        k.w = w + spin;
    } else if (kind == joint_kind::prismatic) {
        k.r = r + F.z * s.q.a.x;
        k.shift = cross(w, F.z) * (2 * s.v.x);
    }
    k.shift += cross(w, cross(w, k.r));
    k.h = k.R * p.moment;
    k.Io = rotated(k.R, p.inertia);
    const S zero = S{};
    k.A = k.Io, k.M = {{p.mass, p.mass, p.mass, zero, zero, zero}}, k.H = cross_matrix(k.h);
    k.n = cross(k.w, k.Io * k.w);
    k.f = cross(k.w, cross(k.w, k.h));
}

// Adds the inertia and bias of what a link carries to its parent, given at the link's origin.
template <class S>
LANES_INLINE void add_to_parent(
    JointDynamics<S>& parent, const Symmetric<S>& A, const Matrix<S>& H, const Symmetric<S>& M, const Vector<S>& r) {
    const Matrix<S> X = cross_matrix(r), shifted = H + X * full(M);
    const Matrix<S> moved = X * transpose(H) + shifted * transpose(X);
    const Symmetric<S> sum = symmetric_part(moved);
    for (int c = 0; c < 6; c++) parent.A.c[c] += A.c[c] + sum.c[c], parent.M.c[c] += M.c[c];
    parent.H = parent.H + shifted;
}

// Solves for the accelerations of one joint as functions of its parent's.
template <class S>
LANES_INLINE void factor_joint(const Tree<S>& tree, int i, const JointState<S>* states, JointDynamics<S>* all) {
    const JointParameters<S>& p = tree.parameters[i];
    const JointState<S>& s = states[i];
    JointDynamics<S>& k = all[i];
    const int parent = tree.parents[i], kind = tree.kinds[i];
    Symmetric<S> A = k.A, M = k.M;
    Matrix<S> H = k.H;
    Vector<S> n = {}, f = {};  // of the force that the joint itself transmits
    if (kind == joint_kind::revolute || kind == joint_kind::prismatic) {
        const Vector<S> z = k.R.z;
        const bool turns = kind == joint_kind::revolute;
        k.Uw = turns ? A * z : H * z;
        k.Uv = turns ? transposed_product(H, z) : M * z;
        k.d = 1 / (dot(z, turns ? k.Uw : k.Uv) + p.armature);
        k.u.x = joint_force(p, s.q.a.x, s.v.x) - dot(z, turns ? k.n : k.f);
        subtract_square(A, k.Uw, k.d), subtract_square(M, k.Uv, k.d);
        H = {H.x - k.Uw * (k.Uv.x * k.d), H.y - k.Uw * (k.Uv.y * k.d), H.z - k.Uw * (k.Uv.z * k.d)};
        n = k.Uw * (k.u.x * k.d), f = k.Uv * (k.u.x * k.d);
    } else if (kind == joint_kind::ball) {
        Symmetric<S> own = A;
        for (int c = 0; c < 3; c++) own.c[c] += p.armature;
        k.D = inverse(own);
        k.u = k.R * ball_torque(p, s) - k.n;
        const Matrix<S> DA = full(k.D) * full(A), DH = full(k.D) * H;
        const Vector<S> solved = k.D * k.u;
        n = A * solved, f = transposed_product(H, solved);
        const Symmetric<S> lessA = symmetric_part(full(A) * DA), lessM = symmetric_part(transpose(H) * DH);
        const Matrix<S> lessH = full(A) * DH;
        for (int c = 0; c < 6; c++) A.c[c] -= lessA.c[c], M.c[c] -= lessM.c[c];
        H = {H.x - lessH.x, H.y - lessH.y, H.z - lessH.z};
    }
    if (parent < 0) return;
    n = n + k.n + A * k.turn + H * k.shift;
    f = f + k.f + transposed_product(H, k.turn) + M * k.shift;
    add_to_parent(all[parent], A, H, M, k.r);
    all[parent].n += n + cross(k.r, f);
    all[parent].f += f;
}

// The acceleration of a joint whose parent's acceleration, at the link's origin, is (alpha, a); these become the link's.
template <class S>
LANES_INLINE Vector<S> solve_joint(const JointDynamics<S>& k, int kind, const Vector<S>& u, Vector<S>& alpha, Vector<S>& a) {
    Vector<S> found = {};
    if (kind == joint_kind::revolute || kind == joint_kind::prismatic) {
        found.x = (u.x - dot(k.Uw, alpha) - dot(k.Uv, a)) * k.d;
        (kind == joint_kind::revolute ? alpha : a) += k.R.z * found.x;
    } else if (kind == joint_kind::ball) {
        const Vector<S> turned = k.D * (u - k.A * alpha - k.H * a);
        alpha += turned;
        found = transposed_product(k.R, turned);
    }
    return found;
}

// Computes poses, velocities and inertias of all links.
template <class T, class S>
static __attribute__((noinline)) void forward_kinematics(const Tree<S>& tree, const JointState<S>* states, JointDynamics<S>* all) {
    for (int i = 0; i < tree.count; i++) link_kinematics<T>(tree, i, states, all);
}

// Computes the accelerations of all joints, after `forward_kinematics`.
template <class S>
static __attribute__((noinline)) void forward_dynamics(const Tree<S>& tree, const JointState<S>* states, JointDynamics<S>* all) {
    for (int i = 0; i < (tree.wrenches ? tree.count : 0); i++)
        all[i].f -= tree.wrenches[i].force, all[i].n -= tree.wrenches[i].torque;
    for (int i = tree.count - 1; i >= 0; i--) factor_joint(tree, i, states, all);
    for (int i = 0; i < tree.count; i++) {
        JointDynamics<S>& k = all[i];
        const int parent = tree.parents[i];
        Vector<S> alpha = {}, a = -tree.parameters[i].gravity;
        if (parent >= 0) alpha = all[parent].alpha, a = all[parent].a;
        a += cross(alpha, k.r) + k.shift;
        alpha += k.turn;
        k.acceleration = solve_joint(k, tree.kinds[i], k.u, alpha, a);
        k.alpha = alpha, k.a = a;
    }
}

// --- adjoint -----------------------------------------------------------------------------------------------------------

// Solves for the virtual motion: the accelerations that joint forces `adjoint` would cause without anything else.
template <class S>
LANES_INLINE void solve_virtual_motion(
    const Tree<S>& tree, const JointDynamics<S>* all, const Vector<S>* adjoint, JointAdjoint<S>* g) {
    for (int i = 0; i < tree.count; i++) g[i] = {};
    for (int i = tree.count - 1; i >= 0; i--) {
        const JointDynamics<S>& k = all[i];
        const int parent = tree.parents[i], kind = tree.kinds[i];
        Vector<S> n = g[i].n, f = g[i].f;
        if (kind == joint_kind::revolute || kind == joint_kind::prismatic) {
            g[i].u.x = adjoint[i].x - dot(k.R.z, kind == joint_kind::revolute ? n : f);
            const S solved = g[i].u.x * k.d;
            n += k.Uw * solved, f += k.Uv * solved;
        } else if (kind == joint_kind::ball) {
            g[i].u = k.R * adjoint[i] - n;
            const Vector<S> solved = k.D * g[i].u;
            n += k.A * solved, f += transposed_product(k.H, solved);
        }
        if (parent >= 0) g[parent].n += n + cross(k.r, f), g[parent].f += f;
    }
    for (int i = 0; i < tree.count; i++) {
        const int parent = tree.parents[i];
        Vector<S> w = {}, v = {};
        if (parent >= 0) w = g[parent].nu_w, v = g[parent].nu_v + cross(w, all[i].r);
        g[i].mu = solve_joint(all[i], tree.kinds[i], g[i].u, w, v);
        g[i].nu_w = w, g[i].nu_v = v;
    }
}

// Adjoints of the power of a link's inertial forces in the virtual motion.
template <class S>
LANES_INLINE void link_adjoint(const JointParameters<S>& p, const JointDynamics<S>& k, JointAdjoint<S>& g, JointParameters<S>& grad) {
    const Vector<S>&nu_w = g.nu_w, &nu_v = g.nu_v;
    const Vector<S> spun = k.Io * k.w, slide = cross(k.w, k.h), across = cross(nu_v, k.w), twist = cross(nu_w, k.w);
    const Vector<S> n = k.Io * k.alpha + cross(k.w, spun) + cross(k.h, k.a);
    const Vector<S> f = k.a * p.mass + cross(k.alpha, k.h) + cross(k.w, slide);
    const Vector<S> a_adj = nu_v * p.mass + cross(nu_w, k.h), alpha_adj = k.Io * nu_w + cross(k.h, nu_v);
    const Vector<S> w_adj = cross(spun, nu_w) + k.Io * twist + cross(slide, nu_v) + cross(k.h, across);
    grad.mass -= dot(nu_v, k.a);
    grad.moment -= transposed_product(k.R, cross(k.a, nu_w) + cross(nu_v, k.alpha) + cross(across, k.w));
    const Vector<S> x = transposed_product(k.R, -nu_w), y = transposed_product(k.R, -twist);
    grad.inertia.add_adjoint(x, transposed_product(k.R, k.alpha));
    grad.inertia.add_adjoint(y, transposed_product(k.R, k.w));
    // A rotation of the link acts as the opposite rotation of all vectors.
    g.turn_adj += cross(k.a, a_adj) + cross(k.alpha, alpha_adj) + cross(k.w, w_adj) + cross(nu_w, n) + cross(nu_v, f);
    g.a_adj -= a_adj, g.alpha_adj -= alpha_adj, g.w_adj -= w_adj, g.nu_w_adj -= n, g.nu_v_adj -= f;
}

// Takes the adjoints of a link to its joint and its parent.
template <class S>
LANES_INLINE void joint_adjoint(
    const Tree<S>& tree, int i, const JointState<S>* states, const JointDynamics<S>* all, JointAdjoint<S>* g,
    JointParameters<S>* grads, JointState<S>* adjoints) {
    const JointParameters<S>& p = tree.parameters[i];
    const JointState<S>& s = states[i];
    const JointDynamics<S>& k = all[i];
    JointAdjoint<S>& own = g[i];
    JointParameters<S>& grad = grads[i];
    JointState<S>& adj = adjoints[i];
    const int parent = tree.parents[i], kind = tree.kinds[i];
    Vector<S> w = {}, alpha = {}, nu_w = {};
    if (parent >= 0) w = all[parent].w, alpha = all[parent].alpha, nu_w = g[parent].nu_w;
    Vector<S> w_adj = own.w_adj, z_adj = {};
    // accelerations and virtual velocity of the origin
    const Vector<S> slide = cross(w, k.r), across = cross(own.a_adj, w);
    const Vector<S> alpha_adj = own.alpha_adj + cross(k.r, own.a_adj), nu_w_adj = own.nu_w_adj + cross(k.r, own.nu_v_adj);
    w_adj += cross(slide, own.a_adj) + cross(k.r, across);
    const Vector<S> origin_adj = cross(own.a_adj, alpha) + cross(across, w) + cross(own.nu_v_adj, nu_w);
    const Vector<S> z = k.R.z;
    if (kind == joint_kind::revolute) {
        const S mu = own.mu.x, rate = s.v.x;
        z_adj = own.w_adj * rate + own.alpha_adj * k.acceleration.x + cross(own.alpha_adj, w) * rate + own.nu_w_adj * mu;
        w_adj += cross(z, own.alpha_adj) * rate;
        adj.v.x += dot(z, own.w_adj) + dot(own.alpha_adj, cross(w, z));
        own.turn_adj += cross(z, z_adj);
        adj.q.a.x += dot(z, own.turn_adj);
    } else if (kind == joint_kind::prismatic) {
        const S mu = own.mu.x, rate = s.v.x;
        z_adj = cross(own.a_adj, w) * (2 * rate) + own.a_adj * k.acceleration.x + own.nu_v_adj * mu + origin_adj * s.q.a.x;
        w_adj += cross(z, own.a_adj) * (2 * rate);
        adj.v.x += 2 * dot(own.a_adj, cross(w, z));
        own.turn_adj += cross(z, z_adj);
        adj.q.a.x += dot(z, origin_adj);
    } else if (kind == joint_kind::ball) {
        const Vector<S> spin = k.R * s.v, push = k.R * k.acceleration, virtual_spin = k.R * own.mu;
        const Vector<S> spin_adj = own.w_adj + cross(own.alpha_adj, w);
        w_adj += cross(spin, own.alpha_adj);
        adj.v += transposed_product(k.R, spin_adj);
        own.turn_adj += cross(spin, spin_adj) + cross(push, own.alpha_adj) + cross(virtual_spin, own.nu_w_adj);
        adj.q = adj.q + s.q * (transposed_product(k.R, own.turn_adj) * (S{} + 2));
    }
    if (kind == joint_kind::revolute || kind == joint_kind::prismatic) {
        joint_force_adjoint(p, s.q.a.x, s.v.x, own.mu.x, grad, adj.q.a.x, adj.v.x);
        grad.armature -= own.mu.x * k.acceleration.x;
    } else if (kind == joint_kind::ball) {
        ball_torque_adjoint(p, s, own.mu, grad, adj);
        grad.armature -= dot(own.mu, k.acceleration);
    }
    // the joint's frame
    Matrix<S> F = rotation_matrix(p.frame);
    const Vector<S> arm = kind == joint_kind::prismatic ? k.r - z * s.q.a.x : k.r;
    if (parent >= 0) {
        F = all[parent].R * F;
        grad.offset += transposed_product(all[parent].R, origin_adj);
        JointAdjoint<S>& to = g[parent];
        to.w_adj += w_adj, to.alpha_adj += alpha_adj, to.a_adj += own.a_adj;
        to.nu_w_adj += nu_w_adj, to.nu_v_adj += own.nu_v_adj;
        to.turn_adj += own.turn_adj + cross(arm, origin_adj);
    } else {
        grad.offset += origin_adj;
        grad.gravity -= own.a_adj;
    }
    grad.frame = grad.frame + p.frame * (transposed_product(F, own.turn_adj) * (S{} + 2));
}

// Adds to the adjoints of parameters and states what follows from the adjoints of the accelerations. The virtual motion
// that it leaves in `work` is the adjoint of the wrenches.
template <class T, class S>
static __attribute__((noinline)) void forward_dynamics_adjoint(
    const Tree<S>& tree, const JointState<S>* states, const JointDynamics<S>* all, const Vector<S>* adjoint,
    JointAdjoint<S>* work, JointParameters<S>* grads, JointState<S>* adjoints) {
    solve_virtual_motion(tree, all, adjoint, work);
    for (int i = tree.count - 1; i >= 0; i--) {
        if (tree.wrenches) work[i].nu_v_adj += tree.wrenches[i].force, work[i].nu_w_adj += tree.wrenches[i].torque;
        link_adjoint(tree.parameters[i], all[i], work[i], grads[i]);
        joint_adjoint(tree, i, states, all, work, grads, adjoints);
    }
}

}  // namespace gradsim
