// Implicit midpoint steps of nodes and their adjoint. With the midpoint state u = x + h w, w = v + h a(u, w), h = dt/2, a
// step ends at x + dt w, v + dt a. The unknown is w. Corrections are solutions with the matrix -df/dx - df/dv / h + m/h^2,
// whose factor is that of an earlier state until it converges too slowly; the force itself is exact. The adjoint solves
// with the transposed matrix: its products come from the adjoints of the forces, exactly, and the factor preconditions.
#pragma once
#include "acceleration.h"
#include "corotation.h"
#include "tangent.h"

namespace gradsim {

template <class T> struct ImplicitStep {
    World<T>& world;
    const Nodes<T>& nodes;
    const ImplicitSystem<T>& system;
    SparseCholesky<T> cholesky;
    Acceleration history;
    Corotation<T> corotation;
    long long first, count;            // first node of the world and nodes, with those of unused lanes
    double h;                          // half the time step
    double *correction, *step, *last, *residual, *diagonal;  // vectors [nodes, 4]
    T *saved, *accelerations;           // velocities to return to; those of the last step, for the guess
    bool factored, fresh;              // whether there is a factor; whether it is that of the present state
    int usual;                         // iterations of the first step with this factor
    double excess;                     // iterations beyond these since

    ImplicitStep(World<T>& world_, const ImplicitSystem<T>& system_)
        : world(world_), nodes(*world_.nodes), system(system_), cholesky(system_),
          history(4 * nodes.blocks * LaneTypes<T>::width, system_.vectors),
          corotation(system_, system_.vectors + (2 * Acceleration::capacity + 6) * 4 * nodes.blocks * LaneTypes<T>::width,
                     nodes.blocks * LaneTypes<T>::width),
          factored(false), fresh(false), usual(-1),
          excess(0) {
        count = nodes.blocks * LaneTypes<T>::width;
        first = world.index * count;
        h = 0.5 * (double)world.time.dt;
        double* memory = system.vectors + 2 * Acceleration::capacity * 4 * count;
        correction = memory, step = memory + 4 * count, last = memory + 8 * count, residual = memory + 12 * count;
        diagonal = memory + 16 * count;
        saved = nodes.v_stage + 4 * first, accelerations = nodes.a_stage + 4 * first;
    }

    T* own(T* p) const { return p + 4 * first; }
    double inverse_mass(long long k) const {
        return nodes.table.value[node_row::inverse_mass * nodes.table.stride + first + k];
    }
    double gravity(long long k, int c) const {
        return nodes.table.value[(node_row::gravity_x + c) * nodes.table.stride + first + k];
    }
    // Calls visit(node, inverse mass) for all nodes whose velocity is unknown.
    template <class F> void for_each_free(F visit) const {
        for (long long k = 0; k < count; k++)
            if (const double w = inverse_mass(k); w > 0) visit(k, w);
    }

    // --- linear algebra ----------------------------------------------------------------------------------------------

    void refresh() {
        __builtin_memset(system.blocks, 0, sizeof(double) * 9 * system.block_count);
        for (int k = 0; k < world.force_count; k++)
            if (system.tangents[k].map) add_tangent(world.forces[k], system.tangents[k], system, nodes, world.index, T(1 / h));
        for (double shift = 1; shift < 1e12; shift *= 4) {  // a stable step has a positive matrix; a larger one is damped
            for_each_free([&](long long k, double w) { diagonal[4 * k] = shift / (w * h * h); });
            if (cholesky.factorize(diagonal)) break;
        }
        corotation.begin(own(nodes.x));
        factored = fresh = true, usual = -1, excess = 0;
        history.count = 0;
    }
    // Solves with the factor, turned with the nodes.
    void solve_linear(double* z) const {
        corotation.rotate(z, true);
        cholesky.solve(z);
        corotation.rotate(z, false);
    }
    void begin_iteration() {
        if (worn_out())
            refresh();
        else
            corotation.update(own(nodes.x));
    }
    // Counts the iterations of a step. The factor is replaced once all that it took beyond its first step cost as much as
    // a new one.
    void count_iterations(int iterations) {
        if (usual < 0) usual = iterations;
        excess += iterations > usual ? iterations - usual : 0;
    }
    bool worn_out() const { return !factored || excess > (double)system.refresh_cost; }

    // --- forward -----------------------------------------------------------------------------------------------------

    void evaluate() {
        T *x = own(nodes.x), *v = own(nodes.v), *f = own(nodes.f);
        const T* start = own(nodes.x_start);
        for (long long k = 0; k < count; k++) {
            for (int c = 0; c < 4; c++) f[4 * k + c] = 0;
            if (inverse_mass(k) > 0)
                for (int c = 0; c < 3; c++) x[4 * k + c] = start[4 * k + c] + T(h) * v[4 * k + c];
        }
        for (int k = 0; k < world.force_count; k++) add_forces(world.forces[k], nodes, world.index, SubdomainRange{0, 1, 1, true});
    }
    // Solves for the correction of the positions; returns its length, and sets its largest component.
    double correct(double& largest) const {
        const T *v = own(nodes.v), *f = own(nodes.f), *start = own(nodes.v_start);
        __builtin_memset(correction, 0, sizeof(double) * 4 * count);
        for_each_free([&](long long k, double w) {
            for (int c = 0; c < 3; c++) {
                const long long i = 4 * k + c;
                correction[i] = (double)f[i] + (gravity(k, c) - ((double)v[i] - (double)start[i]) / h) / w;
            }
        });
        solve_linear(correction);
        largest = 0;
        for (long long i = 0; i < 4 * count; i++) largest = larger(largest, magnitude(correction[i]));
        const double length = square_root(product(correction, correction, 4 * count));
        return length;
    }
    void move_from_saved(double factor) const {
        T* v = own(nodes.v);
        for_each_free([&](long long k, double) {
            for (int c = 0; c < 3; c++) v[4 * k + c] = T((double)saved[4 * k + c] + factor * step[4 * k + c] / h);
        });
    }
    void keep() const { __builtin_memcpy(saved, own(nodes.v), sizeof(T) * 4 * count); }

    // The size of what moves: tolerances are relative to it.
    double extent() const {
        const T* x = own(nodes.x_start);
        double most = 0;
        for (int c = 0; c < 3; c++) {
            double low = 1e300, high = -1e300;
            for (long long k = 0; k < system.node_count; k++)
                low = smaller(low, (double)x[4 * k + c]), high = larger(high, (double)x[4 * k + c]);
            most = larger(most, high - low);
        }
        return most > 0 ? most : 1;
    }

    // Solves for the velocity at the middle of the step, from the guess in the buffers; returns whether it converged.
    bool solve() {
        const double size = extent(), tolerance = system.tolerance * size;
        const double rounding = (sizeof(T) == 8 ? 1e-14 : 1e-5) * size;  // where an iteration may stall
        double largest = 0, tried;
        history.count = 0, fresh = false;
        evaluate();
        begin_iteration();
        double length = correct(largest);
        int since = 0, used = 0, growths = 0;
        for (; !(largest <= tolerance); used++) {
            if (used == system.max_iterations || !(length < 1e300)) return false;
            keep();
            __builtin_memcpy(last, correction, sizeof(double) * 4 * count);
            history.next(last, step);
            double factor = 1, trial;
            for (;;) {
                move_from_saved(factor);
                evaluate();
                trial = correct(tried);
                if (trial < length) break;
                if (trial < 4 * length && ++growths <= implicit_sizes::growths) break;  // the acceleration is not monotone
                if (largest <= rounding) return settle();
                if (!fresh) {
                    move_from_saved(0);
                    evaluate();
                    refresh();
                    since = 0, factor = 1, length = correct(largest);
                    __builtin_memcpy(last, correction, sizeof(double) * 4 * count);
                    __builtin_memcpy(step, correction, sizeof(double) * 4 * count);
                    if (!(length < 1e300)) return false;
                    continue;
                }
                if ((factor *= 0.25) < 1e-6) return false;
            }
            for (long long i = 0; i < 4 * count; i++) step[i] *= factor, last[i] = correction[i] - last[i];
            history.add(step, last);
            const bool slow = trial > 0.5 * length;
            length = trial, largest = tried, fresh = false;
            if (slow && ++since >= implicit_sizes::slow_iterations && largest > tolerance) {
                refresh();
                since = 0, length = correct(largest);
            }
        }
        count_iterations(used);
        return true;
    }
    // Ends an iteration that stalls at rounding errors.
    bool settle() {
        move_from_saved(0);
        evaluate();
        return true;
    }

    void begin(int number) {
        const bool starts = number == 0 || world.time.starts_frame(number);
        if (starts) factored = false;
        __builtin_memcpy(own(nodes.x_start), own(nodes.x), sizeof(T) * 4 * count);
        __builtin_memcpy(own(nodes.v_start), own(nodes.v), sizeof(T) * 4 * count);
        T *x = own(nodes.x), *v = own(nodes.v);
        for (long long k = 0; k < count; k++)
            for (int c = 0; c < 3; c++) {
                const long long i = 4 * k + c;
                if (!starts && inverse_mass(k) > 0) v[i] += T(h) * accelerations[i];
                x[i] += T(h) * v[i];
            }
        sample_signals(world, number, T(0.5));
        set_prescribed_nodes(world);
        set_anchors(false);
    }
    // Whether evaluations of the forces move the anchors of sticking friction.
    void set_anchors(bool move) const {
        set_anchor_stage<0>(world);
        if (nodes.anchor_blocks) nodes.anchor_stage[2] = move;
    }
    // The node with the largest correction, or one that is not finite.
    long long worst() const {
        long long found = 0;
        double most = -1;
        for_each_free([&](long long k, double) {
            for (long long i = 4 * k; i < 4 * k + 3; i++)
                if (most == most && !(magnitude(correction[i]) <= most)) found = k, most = magnitude(correction[i]);
        });
        return found;
    }
    void end(int number, bool converged) {
        T *x = own(nodes.x), *v = own(nodes.v), *f = own(nodes.f);
        const T *x0 = own(nodes.x_start), *v0 = own(nodes.v_start);
        if (nodes.anchor_blocks) set_anchors(true), evaluate();
        if (!converged) v[4 * worst()] = T(__builtin_nan(""));
        if (world.time.record)
            world.for_each_node_block(number, [&](const NodeBlock<T>& b) {
                b.record(nodes.xs, b.read(nodes.x)), b.record(nodes.vs, b.read(nodes.v)), b.record(nodes.fs, b.read(nodes.f));
            });
        for (long long i = 0; i < 4 * count; i++) {
            accelerations[i] = T(((double)v[i] - (double)v0[i]) / h);
            x[i] = 2 * x[i] - x0[i], v[i] = 2 * v[i] - v0[i], f[i] = 0;
        }
        move_anchors(world, number);
    }
    void forward(int number) {
        begin(number);
        end(number, solve());
    }

    // --- backward ----------------------------------------------------------------------------------------------------

    // The state in the middle of a step, and the adjoints of its position and velocity; keeps those of the step's end.
    void begin_adjoint(int number, int steps) {
        if (number == steps - 1 || world.time.starts_frame(number + 1)) factored = false;
        fresh = false;
        sample_signals(world, number, T(0.5));
        world.for_each_node_block(number, [&](const NodeBlock<T>& b) {
            b.write(nodes.x, b.recorded(nodes.xs)), b.write(nodes.v, b.recorded(nodes.vs));
            b.write(nodes.f, b.recorded(nodes.fs));
            const Triples<T> x = b.read(nodes.x_adj), v = b.read(nodes.v_adj);
            b.write(nodes.x_start, x), b.write(nodes.v_start, v);
            b.write(nodes.x_adj, x * T(2)), b.write(nodes.v_adj, v * T(2));
        });
        if (!nodes.anchor_blocks) return;
        restore_anchors(world, number);
        set_anchors(true);
        __builtin_memset(own(nodes.f_adj), 0, sizeof(T) * 4 * count);
        for (int k = 0; k < world.force_count; k++) add_force_adjoints(world.forces[k], nodes, world.index);
        set_anchors(false);
    }
    // Adds to all adjoints those of the forces whose adjoint is `mu`, [nodes, 4].
    void apply(const double* mu) const {
        T* a = own(nodes.f_adj);
        for (long long i = 0; i < 4 * count; i++) {
            const double w = inverse_mass(i / 4);
            a[i] = w > 0 ? T(mu[i] / w) : T(0);
        }
        world.for_each_node_block(0, [&](const NodeBlock<T>& b) {
            b.write(nodes.f_adj, b.acceleration_adjoint(b.read(nodes.f), b.read(nodes.f_adj)));
        });
        for (int k = 0; k < world.force_count; k++) add_force_adjoints(world.forces[k], nodes, world.index);
    }
    // The residual of the velocity's adjoint for the sum of all `mu` so far; returns its length.
    double adjoint_residual(const double* sum) const {
        const T *x = own(nodes.x_adj), *v = own(nodes.v_adj);
        __builtin_memset(residual, 0, sizeof(double) * 4 * count);
        for_each_free([&](long long k, double w) {
            for (long long i = 4 * k; i < 4 * k + 3; i++) residual[i] = (double)v[i] + h * (double)x[i] - sum[i] / (w * h);
        });
        return square_root(product(residual, residual, 4 * count));
    }
    void precondition() const {
        __builtin_memcpy(correction, residual, sizeof(double) * 4 * count);
        solve_linear(correction);
        for (long long i = 0; i < 4 * count; i++) correction[i] /= h;
    }
    bool solve_adjoint() {
        double* sum = diagonal + 4 * count;
        __builtin_memset(sum, 0, sizeof(double) * 4 * count);
        const double tolerance = larger(system.tolerance, sizeof(T) == 8 ? 1e-13 : 1e-6);
        double length = adjoint_residual(sum);
        const double limit = tolerance * length;
        begin_iteration();
        history.count = 0;
        precondition();
        int since = 0, used = 0;
        for (; !(length <= limit); used++) {
            if (used == 4 * system.max_iterations || !(length < 1e300)) return false;
            history.next(correction, step);
            __builtin_memcpy(last, correction, sizeof(double) * 4 * count);
            apply(step);
            add_multiple(sum, 1, step, 4 * count);
            const double now = adjoint_residual(sum);
            precondition();
            for (long long i = 0; i < 4 * count; i++) last[i] = correction[i] - last[i];
            history.add(step, last);
            const bool slow = now > 0.5 * length;
            length = now;
            if (slow && !fresh && ++since >= implicit_sizes::slow_iterations) refresh(), precondition();
        }
        count_iterations(used);
        return true;
    }
    void end_adjoint(int number, bool converged) {
        if (!converged) own(nodes.x_adj)[0] = T(__builtin_nan(""));
        set_prescribed_nodes_adjoint(world);
        add_signal_adjoints(world, number, T(0.5));
        T *x = own(nodes.x_adj), *v = own(nodes.v_adj);
        const T *x1 = own(nodes.x_start), *v1 = own(nodes.v_start);
        for (long long i = 0; i < 4 * count; i++) {
            v[i] = v[i] + T(h) * x[i] - v1[i];
            x[i] = x[i] - x1[i];
        }
    }
    void backward(int number, int steps) {
        begin_adjoint(number, steps);
        end_adjoint(number, solve_adjoint());
    }
};

template <class T>
static __attribute__((noinline)) void implicit_rollout(World<T>& world, const ImplicitSystem<T>& system, int steps) {
    ImplicitStep<T> implicit(world, system);
    for (int number = 0; number < steps; number++) implicit.forward(number);
    if (world.prescribed) {  // at the end of the last step
        sample_signals(world, steps - 1, T(1));
        set_prescribed_nodes(world);
    }
}
template <class T>
static __attribute__((noinline)) void implicit_rollout_adjoint(World<T>& world, const ImplicitSystem<T>& system, int steps) {
    if (world.prescribed) {
        set_prescribed_nodes_adjoint(world);
        add_signal_adjoints(world, steps - 1, T(1));
    }
    ImplicitStep<T> implicit(world, system);
    for (int number = steps - 1; number >= 0; number--) implicit.backward(number, steps);
}

}  // namespace gradsim
